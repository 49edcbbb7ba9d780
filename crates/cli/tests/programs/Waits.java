// Threads that only wait, each in another way and below two calls. A letter is written once all of them have come there.
import java.net.ServerSocket;
import java.util.concurrent.CountDownLatch;
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
        CountDownLatch begun = new CountDownLatch(ways.length);
        for (Wait way : ways) {
            new Thread(() -> {
                begun.countDown();
                outer(way);
            }).start();
        }
        begun.await();
        System.out.print('x');
        System.out.flush();
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
