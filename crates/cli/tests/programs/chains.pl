# Calls a subroutine 200 times, each time by other ones, and writes these down. It is where it sends itself a signal.
#
#   chains.pl FILE SIGNAL
use strict; use warnings; no strict "refs"; srand 1; my ($out, $signal) = @ARGV;
select undef, undef, undef, 0.3; # Tables for unwinding its files are made meanwhile.
sub stop {
    my $n = shift; my (@names, $i); $i = 0;
    while (my @c = caller $i++) { push @names, $c[3] }
    open my $f, '>>', $out or die; print $f "$n ", join(';', 'main', reverse @names), "\n"; close $f;
    kill $signal => $$;
}
sub direct { $_[0]->() } sub by_sort { my $f = shift; my @x = sort { $f->(); 0 } 1, 2 }
sub by_map { my $f = shift; my @x = map { $f->(); 1 } 1 } sub by_eval { my $f = shift; eval { $f->() } }
sub by_text { our $g = shift; eval 'our $g; $g->()' }
package Tied; sub TIESCALAR { bless [$_[1]] } sub FETCH { $_[0][0]->(); 1 }
package Over; use overload '+' => sub { $_[0][0]->(); 1 }; package main;
sub by_tie { tie my $x, 'Tied', $_[0]; my $y = $x } sub by_overload { my $x = bless [$_[0]], 'Over'; my $y = $x + 1 }
package Gone; sub DESTROY { $_[0][0]->() } package main;
sub by_destroy { my $x = bless [$_[0]], 'Gone'; undef $x }
my @ways = (\&direct, \&by_sort, \&by_map, \&by_eval, \&by_text, \&by_tie, \&by_overload, \&by_destroy);
sub chain { my ($f, $depth) = @_; for (1 .. $depth) { my $way = $ways[rand @ways]; my $g = $f; $f = sub { $way->($g) } } $f->() }
for my $n (0 .. 199) { eval "sub sample_$n { chain(sub { stop($n) }, int rand 9) } 1" or die; &{"sample_$n"}() }
