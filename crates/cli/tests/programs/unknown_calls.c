/* Makes system calls that no kernel has, and one that all have, so many times each. */
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
    for (int i = 0; i < 100; i++) {
        syscall(SYS_getppid);
        syscall(1000);
        syscall(-1);
    }
    return 0;
}
