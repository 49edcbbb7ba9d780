// Accesses a known number of pages for the first time: 16 of memory of its own, 8 of a file, 4 of the heap. Argument: the file,
// which has as many pages. Prints how many page faults the kernel counted meanwhile.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define OWN_CODE __attribute__((noipa))
#define PAGE 4096

static OWN_CODE void touches_own(volatile char *from, int pages)
{
	for (int page = 0; page < pages; page++)
		from[page * PAGE] = 1;
}

// Reading one page would map those around it, too.
static OWN_CODE void touches_file(volatile char *from, int pages)
{
	for (int page = 0; page < pages; page++)
		from[page * PAGE] = 3;
}

static OWN_CODE void touches_heap(volatile char *from, int pages)
{
	for (int page = 0; page < pages; page++)
		from[page * PAGE] = 1;
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}

int main(int count, char **arguments)
{
	int file = open(arguments[count - 1], O_RDONLY);
	char *own = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *mapped = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	char *heap = (char *)(((long)sbrk(5 * PAGE) + PAGE - 1) & -PAGE);
	long before = faults();

	madvise(own, 16 * PAGE, MADV_NOHUGEPAGE);
	touches_own(own, 16);
	touches_file(mapped, 8);
	touches_heap(heap, 4);
	printf("%ld\n", faults() - before);
	return 0;
}
