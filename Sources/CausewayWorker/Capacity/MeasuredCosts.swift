import Numbers
import Observability

/// What a plan rests on: each number with where it comes from. Measured on two shared cores of an AMD EPYC (family 25), Debian 12,
/// Swift 6.3.1, librdkafka 2.0.2, OpenSSL 3.0, Redis 7.0, unless it says otherwise. On your machines `causeway-lab backlog` measures the
/// first two again, and `make demo` the third.
package struct MeasuredCosts: Sendable, Equatable {
    /// CPU of the whole worker process for a command that is merged away or settled without a push, at full load: a backlog of 1,000,000
    /// commands for 20,000 activities (`causeway-lab backlog`, one lane) took 1.04 s, its 20,000 pushes and the process's start included.
    /// There one score goes to many activities and is decoded once; a state of its own for each adds half as much.
    package var nanosecondsPerCommand: Int64 = 1_500
    /// CPU of the whole worker process for a push, beyond its command's, at full load (two Redis calls, one HTTP/2 request over TLS, its
    /// answer, its result): with 75,000 to 100,000 pushes a second from one worker, a push and its command took 9.4 to 12 µs. The upper.
    package var nanosecondsPerPush: Int64 = 10_500
    /// What a worker costs beside that, in hundredths of a core, because it is woken for a few records at a time: the season of `make
    /// demo` (718,800 commands and 162,090 pushes in 60 s, 2,650 pushes a second on one worker of two lanes) took 8.71 s, quieter machines
    /// 7.4 s, of which the two costs above are 2.78. At full load batches are large, and it works without being woken.
    package var wakingHundredths: Int64 = 10

    /// Redis, script calls of one server, admissions and settlements in turn: 80,000 to 107,000 a second on a slow day of the machine
    /// above, each a command of its own as in a cluster; 180,000 in batches.
    package var redisCallsPerSecond: Int64 = 80_000
    /// A push is admitted and settled: two calls.
    package var redisCallsPerPush: Int64 = 2
    /// An activity's value with its token, the allocator's rounding and its share of all tables: 326 measured, 264 of them the value.
    package var redisBytesPerActivity: Int64 = 330
    /// A device's hash with one push-to-start token; of the same kind.
    package var redisBytesPerDevice: Int64 = 400
    /// Above what the keys come to: Redis' own tables, buffers, fragmentation. Redis' documentation assumes 1.1 to 1.5.
    package var redisOverheadPercent: Int64 = 150

    /// CPU of the whole worker process for a member of an audience in a round, all in: its page read, one HTTP/2 request over TLS, its answer. One
    /// worker of `causeway-lab fanout` took 2.4 to 3.2 µs at 10,000 to 1,000,000 members, where h2load took 4.5 to 5.4 for a push.
    package var nanosecondsPerMember: Int64 = 3_000
    /// Redis' CPU for a member of a round, likewise: 0.24 to 0.41 µs measured.
    package var redisNanosecondsPerMember: Int64 = 400
    /// A member in its page, its id a UUID, its token 160 digits, the allocator's rounding and the directories included: 128 to 132 measured.
    package var redisBytesPerMember: Int64 = 135
    /// From a command's record to the first push of its ranges: two passes through Kafka, an admission, a claim, a page. With all of it on one
    /// machine 2,000 members were reached in 0.23 s.
    package var fanoutMilliseconds: Int64 = 250

    /// APNs: streams of one connection, as observed since 2021 (jchambers/pushy issue 878); APNs says it again on each connection.
    package var streamsPerConnection: Int64 = 1_000
    /// From a data centre to Apple and back; tens of milliseconds have been reported, and this is at their upper end.
    package var roundTripMilliseconds: Int64 = 60
    /// On the wire for a push: body, header block, frames and TLS, with the season's bodies.
    package var bytesPerPush: Int64 = 700

    /// A command of the season as its producer wrote it; an update of 456 bytes is the benchmarks' unit.
    package var bytesPerCommand: Int64 = 456
    /// A result record, uncompressed.
    package var bytesPerResult: Int64 = 450
    /// What one partition should carry a second: well below what brokers are commonly run at (10 MB/s), so that a failed-over
    /// broker can catch up.
    package var partitionBytesPerSecond: Int64 = 5_000_000

    package init() {}

    /// Each number as one line: what it is, how much, and where it comes from.
    var lines: [(text: String, source: String)] {
        [
            (
                "\(micros(nanosecondsPerCommand)) µs of CPU a command at full load",
                "1,000,000 merged into 20,000: 1.04 s, pushes included"
            ),
            (
                "\(micros(nanosecondsPerPush)) µs of CPU a push at full load, beyond its command",
                "75,000 to 100,000 a second: 9.4 to 12 µs with its command"
            ),
            (
                "\(Numeral.exact(wakingHundredths, divisor: 100)) cores a worker for being woken at a low rate",
                "season of make demo: 8.71 s in 60 s, less the two above"
            ),
            (
                "\(Numeral.grouped(redisCallsPerSecond)) script calls a second a Redis core",
                "measured: 80,000 to 107,000, each a command"
            ),
            ("\(redisCallsPerPush) script calls a push", "admit and settle"),
            (
                "\(redisBytesPerActivity) bytes an activity in Redis, times \(Numeral.exact(redisOverheadPercent, divisor: 100))",
                "measured: 326, 264 of them the value"
            ),
            ("\(Numeral.grouped(streamsPerConnection)) streams an APNs connection", "observed by others since 2021"),
            ("\(roundTripMilliseconds) ms to APNs and back", "reported by others"),
            ("\(bytesPerPush) bytes on the wire a push", "the season's bodies"),
            ("\(bytesPerCommand) bytes a command, \(bytesPerResult) a result", "the season's records"),
        ]
    }

    /// What the plan of an audience rests on.
    var audienceLines: [(text: String, source: String)] {
        [
            (
                "\(micros(nanosecondsPerMember)) µs of CPU a member of a round",
                "causeway-lab fanout: 2.4 to 3.2, beside h2load's 4.5 to 5.4 a push"
            ),
            (
                "\(Numeral.exact(wakingHundredths, divisor: 100)) cores a worker for being woken at a low rate",
                "season of make demo"
            ),
            (
                "\(micros(redisNanosecondsPerMember)) µs of Redis a member of a round",
                "causeway-lab fanout: 0.24 to 0.41"
            ),
            (
                "\(redisBytesPerMember) bytes a member in Redis, and \(redisBytesPerActivity) an activity, times "
                    + "\(Numeral.exact(redisOverheadPercent, divisor: 100))",
                "measured: 128 to 132, and 326"
            ),
            ("\(Numeral.grouped(streamsPerConnection)) streams an APNs connection", "observed by others since 2021"),
            ("\(roundTripMilliseconds) ms to APNs and back", "reported by others"),
            (
                "\(fanoutMilliseconds) ms from a command's record to its first push",
                "2,000 members on one machine: 0.23 s"
            ),
            ("\(bytesPerPush) bytes on the wire a push", "the season's bodies"),
        ]
    }

    private func micros(_ nanoseconds: Int64) -> String { Numeral.exact(nanoseconds, divisor: 1_000) }
}
