# A small service that spends its time in several ways, for the pictures of docs/languages.md.
use strict;
use warnings;
use Time::HiRes qw(time sleep);

package Order;
sub new { my ($class, $number) = @_; bless { items => [map { $number * $_ % 97 } 1 .. 59] }, $class }
sub price { my $self = shift; my $sum = 0; $sum += tax($_) for @{ $self->{items} }; $sum }
sub tax { my $item = shift; $item += $item * 7 % 13 for 1 .. 12; $item }

package main;
sub rank { sort { $a->price <=> $b->price } @_ }
sub store { sleep 0.004; join ',', map { /(\d)$/ ? $1 : '' } map { @{ $_->{items} } } @_ }
sub serve { my $number = shift; store(rank(map { Order->new($number + $_) } 1 .. 10)) }

my $end = time + $ARGV[0];
my $number = 0;
serve($number++) while time < $end;
