# client.rb DEED HOST PORT USER: does one deed with redis-rb, and prints as a line of JSON what the program that
# uses the client sees.
require "json"
require "redis"

deed, host, port, user = ARGV
BASE, ID = "emq:{mail}:", "JOB00000000001"
CLAIM = ["EMQ.CLAIM", 2, BASE + "pending", BASE + "active", BASE + "job:", 30000]
ENQUEUE = ["EMQ.ENQUEUE", 2, "#{BASE}job:#{ID}", BASE + "pending", ID, "hello"]
STALE = ["EMQ.COMPLETE", 2, BASE + "active", "#{BASE}job:#{ID}", ID, 99, BASE]

def shown(reply)
  case reply
  when Array then reply.map { |r| shown(r) }
  when Exception then { error: reply.message }
  else reply
  end
end

def life(db)
  created = db.call(*ENQUEUE)
  job = db.call(*CLAIM)
  id, _payload, token = job
  [created, job, db.call("EMQ.COMPLETE", 2, BASE + "active", BASE + "job:" + id, id, token, BASE), db.call(*CLAIM)]
end

# Keeps a waiting claim until the test is over, so that the test can look at it.
def waits(db, block)
  db.call("EMQ.BCLAIM", 30000, block, BASE)
ensure
  $stdout.puts "ended"
  $stdout.flush
  $stdin.read
end

def beside(db)
  Thread.new { $stdin.gets; db.call(*ENQUEUE) }
  waits(db, 3000)
end

def hex(job) = [job[0], job[1].unpack1("H*"), job[2]]

QUEUED = ->(p) { p.call(*CLAIM); p.call(*STALE) }
DEEDS = {
  "wait 3000" => ->(db) { waits(db, 3000) },
  "wait 12000" => ->(db) { waits(db, 12000) },
  "wait 0" => ->(db) { waits(db, 0) },
  "wait beside" => ->(db) { beside(db) },
  "wait given up" => ->(db) { waits(db, 0) },
  "wait unblocked" => ->(db) { [db.call("CLIENT", "ID"), waits(db, 0), db.call("PING")] },
  "life" => ->(db) { life(db) },
  "claim" => ->(db) { db.call(*CLAIM) },
  "claim once" => ->(db) { db.call(*CLAIM) },
  "settle stale" => ->(db) { db.call(*STALE) },
  "claim text" => ->(db) { hex(db.call(*CLAIM)) },
  "claim in pipeline" => ->(db) { db.pipelined(&QUEUED) },
  "claim in multi" => ->(db) { db.multi(&QUEUED) },
  "claim in multi, rescued" => ->(db) { db.pipelined(exception: false, &QUEUED) },
}

settings = { host: host, port: port.to_i }
settings.update(username: user, password: "secret") unless user.to_s.empty?
right = deed.end_with?(" right") # with the page's settings for calls that wait
settings[:reconnect_attempts] = 0 if right || deed == "claim once"
settings[:timeout] = 22 if right
settings[:timeout] = 0.5 if deed == "wait given up"
said = begin
  { reply: deed == "version" ? Redis::VERSION : shown(DEEDS.fetch(deed.delete_suffix(" right")).call(Redis.new(**settings))) }
rescue StandardError => e
  { error: e.message }
end
puts JSON.generate(said)
