// Threads that only wait, each in another way and below two calls. A letter is written once all of them have come there.
import java.net.ServerSocket;
import java.util.concurrent.locks.LockSupport;

public class Waits {
    interface Wait {
        void begin() throws Exception;
    }

    static final Object MONITOR = new Object();
    static ServerSocket socket;

    public static void main(String[] words) throws Exception {
        socket = new ServerSocket(0);
        Wait[] ways = {Waits::naps, Waits::waits, Waits::parks, Waits::reads, Waits::accepts};
        Thread[] threads = new Thread[ways.length];
        for (int i = 0; i < ways.length; i++) {
            Wait way = ways[i];
            threads[i] = new Thread(() -> outer(way));
            threads[i].start();
        }
        for (Thread thread : threads) {
            while (!waits(thread.getStackTrace())) Thread.sleep(10);
        }
        System.out.print('x');
        System.out.flush();
    }

    // What waits is native.
    static boolean waits(StackTraceElement[] calls) {
        return calls.length > 4 && calls[0].isNativeMethod();
    }

    static void outer(Wait way) {
        try {
            way.begin();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    static void naps() throws Exception {
        Thread.sleep(1_000_000);
    }

    static void waits() throws Exception {
        synchronized (MONITOR) {
            MONITOR.wait();
        }
    }

    static void parks() {
        while (true) LockSupport.park();
    }

    static void reads() throws Exception {
        System.in.read();
    }

    static void accepts() throws Exception {
        socket.accept();
    }
}
