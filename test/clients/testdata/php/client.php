<?php
// client.php DEED HOST PORT USER: does one deed with phpredis, and prints as a line of JSON what the program that
// uses the client sees.
[, $deed, $host, $port, $user] = $argv + array_fill(0, 5, '');
$base = 'emq:{mail}:';
$id = 'JOB00000000001';
$claim = ['EMQ.CLAIM', 2, $base . 'pending', $base . 'active', $base . 'job:', 30000];
$enqueue = ['EMQ.ENQUEUE', 2, $base . 'job:' . $id, $base . 'pending', $id, 'hello'];
$complete = fn($id, $token) => ['EMQ.COMPLETE', 2, $base . 'active', $base . 'job:' . $id, $id, $token, $base];
$queued = function ($db) use ($claim, $complete, $id) {
	$db->rawCommand(...$claim);
	$db->rawCommand(...$complete($id, 99));
	return $db->exec();
};
// Keeps a waiting claim until the test is over, so that the test can look at it.
$waits = function ($db, $block) use ($base) {
	try {
		return $db->rawCommand('EMQ.BCLAIM', 30000, $block, $base);
	} finally {
		echo "ended\n";
		stream_get_contents(STDIN);
	}
};
$deeds = [
	'wait 3000' => fn($db) => $waits($db, 3000),
	'wait 12000' => fn($db) => $waits($db, 12000),
	'wait 0' => fn($db) => $waits($db, 0),
	'wait given up' => fn($db) => $waits($db, 0),
	'wait shifted' => function ($db) use ($waits) {
		try {
			$waits($db, 0);
		} catch (RedisException $e) {
			return $db->rawCommand('PING');
		}
	},
	'wait unblocked' => fn($db) => [$db->rawCommand('CLIENT', 'ID'), $waits($db, 0), $db->ping() ? 'PONG' : null],
	'life' => function ($db) use ($enqueue, $claim, $complete) {
		$created = $db->rawCommand(...$enqueue);
		$job = $db->rawCommand(...$claim);
		return [$created, $job, $db->rawCommand(...$complete($job[0], $job[2])), $db->rawCommand(...$claim)];
	},
	'enqueue prefixed' => function ($db) use ($enqueue) {
		$db->setOption(Redis::OPT_PREFIX, 'app:');
		return [$db->set('known', 'x') ? 'OK' : null, $db->rawCommand(...$enqueue)];
	},
	'claim' => function ($db) use ($claim) {
		// If the connection is lost before phpredis reads, it reconnects and waits for an answer that never comes, by
		// default for 60 s.
		$db->setOption(Redis::OPT_READ_TIMEOUT, 5);
		return $db->rawCommand(...$claim);
	},
	'settle stale' => fn($db) => $db->rawCommand(...$complete($id, 99)),
	'claim wrong' => fn($db) => $db->rawCommand(...array_replace($claim, [5 => 'x'])),
	'claim wrong, last error' => function ($db) use ($claim) {
		$db->rawCommand(...array_replace($claim, [5 => 'x']));
		return $db->getLastError();
	},
	'claim text' => function ($db) use ($claim) {
		$job = $db->rawCommand(...$claim);
		return [$job[0], bin2hex($job[1]), $job[2]];
	},
	'claim in pipeline' => fn($db) => $queued($db->pipeline()),
	'claim in multi' => fn($db) => $queued($db->multi()),
];
try {
	if ($deed === 'version') {
		$said = ['reply' => phpversion('redis')];
	} else {
		if (str_ends_with($deed, ' right')) {
			ini_set('default_socket_timeout', '1'); // which the setting below has to overrule
		}
		$db = new Redis();
		$db->connect($host, (int) $port);
		if ($user !== '') {
			$db->auth([$user, 'secret']);
		}
		if ($deed === 'wait given up' || $deed === 'wait shifted') {
			$db->setOption(Redis::OPT_READ_TIMEOUT, 0.5);
		}
		if (str_ends_with($deed, ' right')) { // with the page's settings for calls that wait
			$db->setOption(Redis::OPT_READ_TIMEOUT, -1);
		}
		$said = ['reply' => $deeds[preg_replace('/ right$/', '', $deed)]($db)];
	}
} catch (Throwable $e) {
	$said = ['error' => $e->getMessage()];
}
echo json_encode($said), "\n";
