// Virtual threads (Java 21 and later) that rest and go on, below calls, and spend 60, 30 and 10 % in three methods:
// `Virtual SECONDS THREADS`, of the process's CPU time. By its name alone, so that older compilers take it.
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;

public class Virtual {
    static final int LENGTH = 100_000;
    static volatile int sink;

    public static void main(String[] words) throws Exception {
        var machine = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long end = machine.getProcessCpuTime() + (long) (1e9 * Double.parseDouble(words[0]));
        int count = Integer.parseInt(words[1]);
        CountDownLatch done = new CountDownLatch(count);
        Runnable body = () -> {
            while (machine.getProcessCpuTime() < end) outer();
            done.countDown();
        };
        for (int i = 0; i < count; i++) {
            Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, body);
        }
        done.await();
    }

    static void outer() {
        inner();
    }

    static void inner() {
        six();
        three();
        one();
    }

    static void six() {
        rest();
        spin(6 * LENGTH);
    }

    static void three() {
        rest();
        spin(3 * LENGTH);
    }

    static void one() {
        rest();
        spin(LENGTH);
    }

    // Its frames go to the heap meanwhile.
    static void rest() {
        LockSupport.parkNanos(500_000);
    }

    static void spin(int length) {
        int x = sink;
        for (int i = 0; i < length; i++) { x = x * 31 + 3; x ^= x >>> 3; x = x * 31 + 10; x ^= x >>> 4; x = x * 31 + 17; x ^= x >>> 5; }
        sink = x;
    }
}
