import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;

/**
 * A map of orders is filled; then orders are looked up and replaced, so that the collector has to find room; at last
 * all are read in order.
 *
 * Collected BYTES SEED: BYTES is what the orders take. Prints one line of JSON; the checksum is that of the orders at
 * the end.
 */
public final class Collected {
    private static final String WORDS =
        "amber basket candle dragon engine forest guitar harbor "
            + "island jungle kitchen ladder marble needle orange pepper";
    private static final String[] NAMES = WORDS.split(" ");

    /** One order with its place in the map and its list: about 440 bytes in several objects. */
    private static final int ORDER_BYTES = 440;

    /** For so many that live one is replaced, at random: where memory swaps, each may wait for pages. */
    private static final int LIVE_FOR_REPLACED = 4;

    private record Order(int id, long key, String customer, List<String> articles, double[] prices) {
        static Order draw(int id, SplittableRandom random) {
            var articles = new ArrayList<String>(3);
            for (int article = 0; article < 3; article++) {
                articles.add(NAMES[random.nextInt(16)] + "-" + random.nextInt(100_000));
            }
            var prices = random.doubles(3, 0, 1000).map(Math::floor).toArray();
            var customer = NAMES[random.nextInt(16)] + " " + NAMES[random.nextInt(16)] + " " + id;
            return new Order(id, random.nextLong(), customer, articles, prices);
        }

        long worth() {
            long worth = key ^ customer.hashCode();
            for (int article = 0; article < articles.size(); article++) {
                worth = worth * 31 + articles.get(article).hashCode() + (long) prices[article];
            }
            return worth;
        }
    }

    public static void main(String[] words) {
        int count = (int) (Long.parseLong(words[0]) / ORDER_BYTES);
        var random = new SplittableRandom(Long.parseLong(words[1]));
        Map<Integer, Order> orders = new HashMap<>();

        long started = System.nanoTime();
        for (int id = 0; id < count; id++) {
            orders.put(id, Order.draw(id, random));
        }
        long filled = System.nanoTime();
        long seen = 0;
        for (int step = 0; step < count / LIVE_FOR_REPLACED; step++) {
            int id = random.nextInt(count);
            seen = seen * 31 + orders.get(id).worth();
            int replaced = random.nextInt(count);
            orders.put(replaced, Order.draw(replaced, random));
        }
        long replaced = System.nanoTime();
        for (int id = 0; id < count; id++) {
            seen = seen * 31 + orders.get(id).worth();
        }
        long read = System.nanoTime();
        System.out.printf(
            "{\"figures\":{\"fill_s\":%.3f,\"replace_s\":%.3f,\"read_s\":%.3f},\"checksum\":\"%016x\"}%n",
            (filled - started) / 1e9, (replaced - filled) / 1e9, (read - replaced) / 1e9, seen);
    }
}
