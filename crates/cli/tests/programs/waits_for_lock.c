// Waits for a lock as often as its arguments say: waits_for_lock OFTEN SELDOM. Another thread takes the lock, says so, and
// keeps it for 2 milliseconds, and for 5 where it is waited for seldom: on a busy machine waits are longer by what it takes to get
// a CPU, and where the lock is kept for less, many of two threads that are to meet do not.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int turn; // 0: the other thread is to take the lock; 1: it has it; 2: it ends
static atomic_long keeps = 2000000;
static int volatile work;

static void wait_for(int value)
{
	while (atomic_load(&turn) != value)
		sched_yield();
}

static void *holder(void *unused)
{
	for (;;) {
		while (atomic_load(&turn) == 1)
			sched_yield();
		if (atomic_load(&turn) == 2)
			return unused;
		pthread_mutex_lock(&lock);
		atomic_store(&turn, 1);
		nanosleep(&(struct timespec){ 0, atomic_load(&keeps) }, NULL);
		pthread_mutex_unlock(&lock);
	}
}

static inline __attribute__((always_inline)) void waits(int times)
{
	for (int i = 0; i < times; i++) {
		wait_for(1);
		pthread_mutex_lock(&lock);
		work++;
		pthread_mutex_unlock(&lock);
		atomic_store(&turn, 0);
	}
}

__attribute__((noinline)) static void often(int times)
{
	waits(times);
}

__attribute__((noinline)) static void seldom(int times)
{
	waits(times);
	work++;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	if (argc < 3 || pthread_create(&thread, NULL, holder, NULL))
		return 1;
	often(atoi(argv[1]));
	atomic_store(&keeps, 5000000);
	seldom(atoi(argv[2]));
	wait_for(1);
	atomic_store(&turn, 2);
	pthread_join(thread, NULL);
	return 0;
}
