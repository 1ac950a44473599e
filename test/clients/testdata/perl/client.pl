# client.pl DEED HOST PORT USER: does one deed with Redis::Fast, and prints as a line of JSON what the program that
# uses the client sees.
use strict;
use warnings;
use JSON::PP;
use Redis::Fast;

my ($deed, $host, $port, $user) = @ARGV;
my ($base, $id) = ('emq:{mail}:', 'JOB00000000001');
my @claim = ('EMQ.CLAIM', 2, $base . 'pending', $base . 'active', $base . 'job:', 30000);
my @enqueue = ('EMQ.ENQUEUE', 2, $base . 'job:' . $id, $base . 'pending', $id, 'hello');
sub complete { my ($id, $token) = @_; ('EMQ.COMPLETE', 2, $base . 'active', $base . 'job:' . $id, $id, $token, $base) }

# A command whose name the client does not know is a method of that name.
sub call { my ($db, $name, @args) = @_; $db->$name(@args) }

# Keeps a waiting claim until the test is over, so that the test can look at it.
sub waits {
	my ($db, $block) = @_;
	my $reply = eval { call($db, 'EMQ.BCLAIM', 30000, $block, $base) };
	my $error = $@;
	$| = 1;
	print "ended\n";
	my @rest = <STDIN>;
	die $error if $error;
	$reply;
}

my %deeds = (
	'wait 3000' => sub { waits($_[0], 3000) },
	'wait 12000' => sub { waits($_[0], 12000) },
	'wait 0' => sub { waits($_[0], 0) },
	'wait given up' => sub { waits($_[0], 0) },
	'wait unblocked' => sub { my $id = call($_[0], 'CLIENT', 'ID'); [$id, waits($_[0], 0), scalar $_[0]->ping] },
	life => sub {
		my $created = call($_[0], @enqueue);
		my $job = call($_[0], @claim);
		[$created, $job, scalar call($_[0], complete($job->[0], $job->[2])), scalar call($_[0], @claim)];
	},
	claim => sub { call($_[0], @claim) },
	'claim reconnect' => sub { call($_[0], @claim) },
	'settle stale' => sub { call($_[0], complete($id, 99)) },
	'claim text' => sub { my $job = call($_[0], @claim); [$job->[0], unpack('H*', $job->[1]), $job->[2]] },
	'claim in multi' => sub { my $db = $_[0]; $db->multi; call($db, @claim); call($db, complete($id, 99)); $db->exec },
);
my $said = eval {
	my $reply = $deed eq 'version' ? $Redis::Fast::VERSION : do {
		my $db = Redis::Fast->new(server => "$host:$port", $user ? (username => $user, password => 'secret') : (),
			$deed eq 'claim reconnect' ? (reconnect => 10) : (),
			$deed eq 'wait given up' ? (read_timeout => 0.5) : ());
		$deeds{$deed =~ s/ right$//r}->($db);
	};
	{ reply => $reply };
} || { error => "$@" };
print JSON::PP->new->canonical->encode($said), "\n";
