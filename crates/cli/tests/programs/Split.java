// Three methods that share the time as their loops are long: 60, 30 and 10 %. They are too large to be inlined into
// their callers (-XX:FreqInlineSize, 325 bytes).
public class Split {
    static final int LENGTH = 20_000;

    // `Split ROUNDS`, or `Split late ROUNDS`, where the second method is called once the first one is through.
    public static void main(String[] words) {
        boolean late = words[0].equals("late");
        long rounds = Long.parseLong(words[words.length - 1]);
        int x = 1;
        if (late) {
            for (long i = 0; i < rounds; i++) x = six(x, 10 * LENGTH);
            for (long i = 0; i < rounds; i++) x = three(x, 10 * LENGTH);
        } else {
            for (long i = 0; i < rounds; i++) {
                x = six(x, 6 * LENGTH);
                x = three(x, 3 * LENGTH);
                x = one(x, LENGTH);
            }
        }
        // Else the compiler would find that nobody needs it.
        if (x == 42) System.exit(7);
    }

    static int six(int x, int length) {
        for (int i = 0; i < length; i++) {
            x = x * 31 + 3; x ^= x >>> 3; x = x * 31 + 10; x ^= x >>> 4; x = x * 31 + 17; x ^= x >>> 5; x = x * 31 + 24; x ^= x >>> 6;
            x = x * 31 + 31; x ^= x >>> 7; x = x * 31 + 38; x ^= x >>> 8; x = x * 31 + 45; x ^= x >>> 9; x = x * 31 + 52; x ^= x >>> 10;
            x = x * 31 + 59; x ^= x >>> 11; x = x * 31 + 66; x ^= x >>> 12; x = x * 31 + 73; x ^= x >>> 13; x = x * 31 + 80; x ^= x >>> 14;
            x = x * 31 + 87; x ^= x >>> 15; x = x * 31 + 94; x ^= x >>> 3; x = x * 31 + 4; x ^= x >>> 4; x = x * 31 + 11; x ^= x >>> 5;
            x = x * 31 + 18; x ^= x >>> 6; x = x * 31 + 25; x ^= x >>> 7; x = x * 31 + 32; x ^= x >>> 8; x = x * 31 + 39; x ^= x >>> 9;
            x = x * 31 + 46; x ^= x >>> 10; x = x * 31 + 53; x ^= x >>> 11; x = x * 31 + 60; x ^= x >>> 12; x = x * 31 + 67; x ^= x >>> 13;
            x = x * 31 + 74; x ^= x >>> 14; x = x * 31 + 81; x ^= x >>> 15; x = x * 31 + 88; x ^= x >>> 3; x = x * 31 + 95; x ^= x >>> 4;
        }
        return x;
    }

    static int three(int x, int length) {
        for (int i = 0; i < length; i++) {
            x = x * 31 + 3; x ^= x >>> 3; x = x * 31 + 10; x ^= x >>> 4; x = x * 31 + 17; x ^= x >>> 5; x = x * 31 + 24; x ^= x >>> 6;
            x = x * 31 + 31; x ^= x >>> 7; x = x * 31 + 38; x ^= x >>> 8; x = x * 31 + 45; x ^= x >>> 9; x = x * 31 + 52; x ^= x >>> 10;
            x = x * 31 + 59; x ^= x >>> 11; x = x * 31 + 66; x ^= x >>> 12; x = x * 31 + 73; x ^= x >>> 13; x = x * 31 + 80; x ^= x >>> 14;
            x = x * 31 + 87; x ^= x >>> 15; x = x * 31 + 94; x ^= x >>> 3; x = x * 31 + 4; x ^= x >>> 4; x = x * 31 + 11; x ^= x >>> 5;
            x = x * 31 + 18; x ^= x >>> 6; x = x * 31 + 25; x ^= x >>> 7; x = x * 31 + 32; x ^= x >>> 8; x = x * 31 + 39; x ^= x >>> 9;
            x = x * 31 + 46; x ^= x >>> 10; x = x * 31 + 53; x ^= x >>> 11; x = x * 31 + 60; x ^= x >>> 12; x = x * 31 + 67; x ^= x >>> 13;
            x = x * 31 + 74; x ^= x >>> 14; x = x * 31 + 81; x ^= x >>> 15; x = x * 31 + 88; x ^= x >>> 3; x = x * 31 + 95; x ^= x >>> 4;
        }
        return x;
    }

    static int one(int x, int length) {
        for (int i = 0; i < length; i++) {
            x = x * 31 + 3; x ^= x >>> 3; x = x * 31 + 10; x ^= x >>> 4; x = x * 31 + 17; x ^= x >>> 5; x = x * 31 + 24; x ^= x >>> 6;
            x = x * 31 + 31; x ^= x >>> 7; x = x * 31 + 38; x ^= x >>> 8; x = x * 31 + 45; x ^= x >>> 9; x = x * 31 + 52; x ^= x >>> 10;
            x = x * 31 + 59; x ^= x >>> 11; x = x * 31 + 66; x ^= x >>> 12; x = x * 31 + 73; x ^= x >>> 13; x = x * 31 + 80; x ^= x >>> 14;
            x = x * 31 + 87; x ^= x >>> 15; x = x * 31 + 94; x ^= x >>> 3; x = x * 31 + 4; x ^= x >>> 4; x = x * 31 + 11; x ^= x >>> 5;
            x = x * 31 + 18; x ^= x >>> 6; x = x * 31 + 25; x ^= x >>> 7; x = x * 31 + 32; x ^= x >>> 8; x = x * 31 + 39; x ^= x >>> 9;
            x = x * 31 + 46; x ^= x >>> 10; x = x * 31 + 53; x ^= x >>> 11; x = x * 31 + 60; x ^= x >>> 12; x = x * 31 + 67; x ^= x >>> 13;
            x = x * 31 + 74; x ^= x >>> 14; x = x * 31 + 81; x ^= x >>> 15; x = x * 31 + 88; x ^= x >>> 3; x = x * 31 + 95; x ^= x >>> 4;
        }
        return x;
    }
}
