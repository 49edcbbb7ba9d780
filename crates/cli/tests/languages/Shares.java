import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;

// Spends 60, 30 and 10 % of its thread's CPU time in `heavy`, `ordered` and `light`, for as many seconds as its argument
// says, and prints what each took by that clock, in ns. `ordered` is called by the comparator of an `Arrays.sort`.
public class Shares {
    static final String[] NAMES = {"heavy", "ordered", "light"};
    static final long[] SHARES = {60, 30, 10};
    static final long[] spent = new long[3];
    static final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    // What is computed is used, or it would not be computed.
    static volatile long sink;

    static long heavy() {
        long sum = 0;
        for (int i = 0; i < 1000000; i++) sum += i % 7 ^ sum;
        return sum;
    }

    static long ordered() {
        long sum = 0;
        for (int i = 0; i < 1000000; i++) sum += i % 5 ^ sum;
        return sum;
    }

    static long light() {
        long sum = 0;
        for (int i = 0; i < 1000000; i++) sum += i % 3 ^ sum;
        return sum;
    }

    static void measured(int which) {
        long start = threads.getCurrentThreadCpuTime();
        sink = which == 0 ? heavy() : which == 1 ? ordered() : light();
        spent[which] += threads.getCurrentThreadCpuTime() - start;
    }

    static int compare(Integer a, Integer b) {
        measured(1);
        return a - b;
    }

    static void run(int which) {
        if (which == 1) {
            Arrays.sort(new Integer[] {2, 1}, Shares::compare);
        } else {
            measured(which);
        }
    }

    public static void main(String[] arguments) {
        long end = System.nanoTime() + (long) (1e9 * Double.parseDouble(arguments[0]));
        while (System.nanoTime() < end) {
            // The one that is furthest behind.
            int next = 0;
            for (int i = 1; i < 3; i++) {
                if (spent[i] * SHARES[next] < spent[next] * SHARES[i]) next = i;
            }
            run(next);
        }
        for (int i = 0; i < 3; i++) System.out.println(NAMES[i] + " " + spent[i]);
    }
}
