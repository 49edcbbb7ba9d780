#!/usr/bin/perl
# Finds the most frequent words of all texts below some folders: a program whose flame graph has functions of Perl, of the
# interpreter and of the kernel in one picture. `./run` records it.
#
# Run: perl examples/words.pl crates docs
use strict;
use warnings;

# All files below a folder.
sub find_files {
    my ($folder) = @_;
    opendir(my $open, $folder) or die "$folder: $!\n";
    my @names = sort grep { !/^\./ } readdir($open);
    my @files;
    for my $path (map { "$folder/$_" } @names) {
        push @files, -d $path ? find_files($path) : $path;
    }
    return @files;
}

sub read_text {
    my ($file) = @_;
    open(my $open, '<:raw', $file) or die "$file: $!\n";
    local $/;
    my $text = <$open>;
    return -T $file ? $text : '';
}

sub count_words {
    my ($text, $counts) = @_;
    $counts->{ lc $_ }++ for $text =~ /\b[[:alpha:]]{4,}\b/g;
}

# A checksum, byte by byte, as nobody should compute it in Perl.
sub checksum {
    my ($text) = @_;
    my $sum = 0;
    $sum = ($sum * 31 + $_) % 65521 for unpack('C*', substr($text, 0, 4000));
    return $sum;
}

sub by_count {
    my ($counts) = @_;
    return sort { $counts->{$b} <=> $counts->{$a} or $a cmp $b } keys %$counts;
}

my (%counts, %sums);
for my $round (1 .. 3) {
    for my $file (map { find_files($_) } @ARGV) {
        my $text = read_text($file);
        $sums{ checksum($text) }++;
        count_words($text, \%counts);
    }
}
my @words = by_count(\%counts);
printf "%s %d\n", $_, $counts{$_} for @words[0 .. ($#words < 9 ? $#words : 9)];
