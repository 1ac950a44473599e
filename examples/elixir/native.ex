defmodule EMQ.Native do
  @moduledoc """
  The native executor for `EchoMQ.Jobs`: where the scripted one sends a script by its SHA, this one sends the verb of that name.

      {:ok, conn} = EMQ.Native.connect("127.0.0.1", 6399)
      {:ok, :enqueued} = EchoMQ.Jobs.enqueue(conn, "mail", id, payload, via: EMQ.Native)

  Keys, arguments and replies are the scripts' own. A script is known by its name: `:enqueue`, or anything with `name: :enqueue`. A
  connection is a socket, for one process at a time; nothing is sent again. After an error that is no refusal of the server's
  the command may have been carried out, and the connection is closed.
  """

  @verbs ~w(enqueue claim complete fail schedule extend promote reap)a
  @answer 10_000

  @doc "Connects to a primary with the module."
  def connect(host, port),
    do: :gen_tcp.connect(String.to_charlist(host), port, [:binary, active: false, nodelay: true], @answer)

  @doc "Runs a transition: `{:ok, reply}`, `{:error, {:server, text}}` if the server refuses, `{:error, reason}` if the connection fails."
  def eval(conn, script, keys, args) do
    verb = "EMQ." <> String.upcase(Atom.to_string(name!(script)))
    words = [verb, Integer.to_string(length(keys))] ++ keys ++ Enum.map(args, &to_string/1)

    with :ok <- :gen_tcp.send(conn, encode(words)),
         {:ok, reply} <- read(conn) do
      case reply do
        {:refused, text} -> {:error, {:server, text}}
        reply -> {:ok, reply}
      end
    else
      {:error, reason} ->
        :gen_tcp.close(conn)
        {:error, reason}
    end
  end

  defp name!(name) when name in @verbs, do: name
  defp name!(%{name: name}) when name in @verbs, do: name
  defp name!(other), do: raise(ArgumentError, "no verb takes the place of the script #{inspect(other)}")

  defp encode(words),
    do: ["*#{length(words)}\r\n" | Enum.map(words, &["$#{byte_size(&1)}\r\n", &1, "\r\n"])]

  # RESP2. A header is a line; what is in a bulk string is counted.
  defp read(conn) do
    with :ok <- :inet.setopts(conn, packet: :line),
         {:ok, <<kind, line::binary>>} <- :gen_tcp.recv(conn, 0, @answer) do
      reply(conn, kind, String.trim_trailing(line, "\r\n"))
    end
  end

  defp reply(_conn, ?+, text), do: {:ok, text}
  defp reply(_conn, ?-, text), do: {:ok, {:refused, text}}
  defp reply(_conn, ?:, text), do: {:ok, String.to_integer(text)}
  defp reply(_conn, _kind, "-1"), do: {:ok, nil}

  defp reply(conn, ?$, text) do
    size = String.to_integer(text)

    with :ok <- :inet.setopts(conn, packet: :raw),
         {:ok, bytes} <- :gen_tcp.recv(conn, size + 2, @answer),
         do: {:ok, binary_part(bytes, 0, size)}
  end

  defp reply(_conn, ?*, "0"), do: {:ok, []}

  defp reply(conn, ?*, text) do
    Enum.reduce_while(1..String.to_integer(text), {:ok, []}, fn _, {:ok, list} ->
      case read(conn) do
        {:ok, reply} -> {:cont, {:ok, [reply | list]}}
        error -> {:halt, error}
      end
    end)
    |> case do
      {:ok, list} -> {:ok, Enum.reverse(list)}
      error -> error
    end
  end
end
