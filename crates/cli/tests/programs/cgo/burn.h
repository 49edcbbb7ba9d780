/* Computes for so many microseconds of CPU time. */
void burn(long us);
/* The same, by way of Go. */
void by_go(long us);
