// A name that would end a line, clear the screen and turn the line round, if it were printed as it is; it sleeps a few times.
#include <sys/prctl.h>
#include <unistd.h>

int main(void) {
    prctl(PR_SET_NAME, "a\nb\tc\33[2Jd");
    for (int time = 0; time < 5; time++) usleep(2000);
    return 0;
}
