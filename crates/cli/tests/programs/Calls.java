// Calls of known order and shares: `Calls split SECONDS`, `Calls chain SECONDS`, of the process's
// CPU time.
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.Arrays;

public class Calls {
    static final int LENGTH = 100_000;
    static int sink;

    public static void main(String[] words) {
        var machine = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long end = machine.getProcessCpuTime() + (long) (1e9 * Double.parseDouble(words[1]));
        while (machine.getProcessCpuTime() < end) {
            if (words[0].equals("split")) {
                sink += six(sink, 6 * LENGTH) + three(sink, 3 * LENGTH);
                Arrays.sort(new Integer[] {2, 1}, Calls::compare);
            } else {
                sink += first(sink);
            }
        }
        if (sink == 42) System.exit(7);
    }

    // 60, 30 and 10 %: the last one is called by a sort.
    static int six(int x, int length) {
        for (int i = 0; i < length; i++) { x = x * 31 + 3; x ^= x >>> 3; x = x * 31 + 10; x ^= x >>> 4; x = x * 31 + 17; x ^= x >>> 5; }
        return x;
    }

    static int three(int x, int length) {
        for (int i = 0; i < length; i++) { x = x * 31 + 3; x ^= x >>> 3; x = x * 31 + 10; x ^= x >>> 4; x = x * 31 + 17; x ^= x >>> 5; }
        return x;
    }

    static int compare(Integer a, Integer b) {
        int x = sink, length = LENGTH;
        for (int i = 0; i < length; i++) { x = x * 31 + 3; x ^= x >>> 3; x = x * 31 + 10; x ^= x >>> 4; x = x * 31 + 17; x ^= x >>> 5; }
        sink += x;
        return a.compareTo(b);
    }

    // Small: compilers put them into each other.
    static int first(int x) {
        return second(x) + 1;
    }

    static int second(int x) {
        return third(x) + 2;
    }

    static int third(int x) {
        for (int i = 0; i < LENGTH; i++) { x = x * 31 + 3; x ^= x >>> 3; x = x * 31 + 10; x ^= x >>> 4; }
        return x;
    }
}
