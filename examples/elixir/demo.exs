# elixir -r native.ex demo.exs [HOST PORT]: EchoMQ.Jobs on the native executor, with the server of `make run`. The modules
# EchoMQ.* stand for the library's, and have no more of it than this needs.
defmodule EchoMQ.Keyspace do
  def queue_key(queue, type) when is_binary(queue) and is_binary(type),
    do: IO.iodata_to_binary(["emq:{", queue, "}:", type])

  def job_key(queue, <<"JOB", digits::binary-size(11)>> = id) do
    if digits =~ ~r/^[0-9A-Za-z]{11}\z/, do: queue_key(queue, "job:" <> id), else: raise(ArgumentError, "no branded id: #{id}")
  end
end

defmodule EchoMQ.Jobs do
  alias EchoMQ.Keyspace
  @enqueue %{name: :enqueue}

  def enqueue(conn, queue, job_id, payload, opts \\ []) when is_binary(job_id) and is_binary(payload) do
    via = Keyword.fetch!(opts, :via)
    keys = [Keyspace.job_key(queue, job_id), Keyspace.queue_key(queue, "pending")]

    case via.eval(conn, @enqueue, keys, [job_id, payload]) do
      {:ok, 1} -> {:ok, :enqueued}
      {:ok, 0} -> {:ok, :duplicate}
      {:error, {:server, "EMQKIND" <> _}} -> {:error, :kind}
      other -> other
    end
  end
end

alias EMQ.Native
alias EchoMQ.Keyspace

[host, port] = if System.argv() == [], do: ["127.0.0.1", "6399"], else: System.argv()
{:ok, conn} = Native.connect(host, String.to_integer(port))
queue = "mail"
[pending, active, schedule, dead] = for type <- ~w(pending active schedule dead), do: Keyspace.queue_key(queue, type)
base = Keyspace.queue_key(queue, "")

enqueue = fn id, payload -> IO.inspect(EchoMQ.Jobs.enqueue(conn, queue, id, payload, via: Native), label: "enqueue") end
claim = fn -> Native.eval(conn, :claim, [pending, active], [base <> "job:", 30_000]) end

enqueue.("JOB00000000001", <<0xFF, 0, "\r\n">>)
enqueue.("JOB00000000001", "again")
enqueue.("JOB00000000002", String.duplicate("x", 100_000))
enqueue.("JOB00000000003", "")

{:ok, [id, payload, token]} = claim.()
IO.inspect({id, payload, token}, label: "claim")
stale = Native.eval(conn, :complete, [active, Keyspace.job_key(queue, id)], [id, token + 1, base])
IO.inspect(stale, label: "complete, with another's token")
IO.inspect(Native.eval(conn, :complete, [active, Keyspace.job_key(queue, id)], [id, token, base]), label: "complete")

{:ok, [id, payload, token]} = claim.()
IO.inspect({id, byte_size(payload), token}, label: "claim")
failed = Native.eval(conn, :fail, [active, schedule, dead, Keyspace.job_key(queue, id)], [id, token, 5000, 3, "mailbox full", base])
IO.inspect(failed, label: "fail")

{:ok, [id, payload, token]} = claim.()
IO.inspect({id, payload, token}, label: "claim")
IO.inspect(Native.eval(conn, :complete, [active, Keyspace.job_key(queue, id)], [id, token, base]), label: "complete")
IO.inspect(claim.(), label: "claim")
