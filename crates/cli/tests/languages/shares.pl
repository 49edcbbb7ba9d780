# Spends 60, 30 and 10 % of its thread's CPU time in `heavy`, `ordered` and `light`, for as many seconds as its argument
# says, and prints what each took by that clock, in ns. `ordered` is called by the block of a `sort`.
use strict;
use warnings;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC CLOCK_THREAD_CPUTIME_ID);

my %share = (heavy => 60, ordered => 30, light => 10);
my %spent = map { $_ => 0 } keys %share;

sub heavy  { my $sum = 0; for my $i (1 .. 20_000) { $sum += $i % 7 } return $sum }
sub ordered { my $sum = 0; for my $i (1 .. 20_000) { $sum += $i % 5 } return $sum }
sub light  { my $sum = 0; for my $i (1 .. 20_000) { $sum += $i % 3 } return $sum }

sub measured {
    my ($name, $function) = @_;
    my $start = clock_gettime(CLOCK_THREAD_CPUTIME_ID);
    $function->();
    $spent{$name} += clock_gettime(CLOCK_THREAD_CPUTIME_ID) - $start;
}

my %run = (
    heavy  => sub { measured('heavy', \&heavy) },
    ordered => sub { my @order = sort { measured('ordered', \&ordered); $a <=> $b } 2, 1 },
    light  => sub { measured('light', \&light) },
);

my $end = clock_gettime(CLOCK_MONOTONIC) + $ARGV[0];
while (clock_gettime(CLOCK_MONOTONIC) < $end) {
    # The one that is furthest behind.
    my ($next) = sort { $spent{$a} / $share{$a} <=> $spent{$b} / $share{$b} } keys %share;
    $run{$next}->();
}
printf "%s %.0f\n", $_, $spent{$_} * 1e9 for qw(heavy ordered light);
