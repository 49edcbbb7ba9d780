// A name that would end a line, clear the screen and turn the line round, if it were printed as it is; it sleeps a few times, and so
// does its child, which has had no other name.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    prctl(PR_SET_NAME, "a\nb\tc\33[2Jd");
    pid_t child = fork();
    for (int time = 0; time < 5; time++) usleep(2000);
    if (child > 0) wait(NULL);
    return 0;
}
