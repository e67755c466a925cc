import Observability

/// What a plan rests on: each number with where it comes from. Measured on two shared cores of an AMD EPYC (family 25), Debian 12,
/// Swift 6.3.1, librdkafka 2.0.2, OpenSSL 3.0, Redis 7.0, unless it says otherwise. On your machines `make demo` measures the first
/// two again.
package struct MeasuredCosts: Sendable, Equatable {
    /// CPU of the whole worker process for a command that is merged away or settled without a push.
    ///
    /// The season of `make demo` (718,800 commands, 162,090 pushes, one worker) took 8.71 s: 12.1 µs for each command, or 53.7 µs for
    /// each push, if all of it is put on one of the two. It is the run that README.md shows; quieter machines have taken 7.4 s. It is
    /// split between them in the ratio of the stages' own measured costs (Design.md, "What it costs": 2.5 µs for a command, 8 µs for a
    /// push). At full load both cost less: `causeway-lab backlog` took 4.2 to
    /// 5.0 µs for a command that is merged away, and 19.2 µs for one that is pushed, its own cost and the process's start included.
    package var nanosecondsPerCommand: Int64 = 7_000
    /// CPU of the whole worker process for a push, beyond its command's: two Redis calls, one HTTP/2 request over TLS, its answer.
    package var nanosecondsPerPush: Int64 = 22_600
    /// The rate at which the two were measured. Larger rates come in larger batches, which cost less a push.
    package var measuredPushesPerSecond: Int64 = 2_650
    /// Resident memory of a worker at work: 78 MiB at the season's peak, with room for 131,072 records a lane.
    package var workerMebibytes: Int64 = 128

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

    /// APNs: streams of one connection, as observed since 2021 (jchambers/pushy issue 878); APNs says it for each connection anew.
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
            ("\(micros(nanosecondsPerCommand)) µs of CPU a command", "season of make demo: 8.71 s, split by stages"),
            (
                "\(micros(nanosecondsPerPush)) µs of CPU a push, beyond its command",
                "season of make demo: 8.71 s, split by stages"
            ),
            (
                "\(Numeral.grouped(redisCallsPerSecond)) script calls a second a Redis core",
                "measured: 80,000 to 107,000, each a command"
            ),
            ("\(redisCallsPerPush) script calls a push", "admit and settle"),
            (
                "\(redisBytesPerActivity) bytes an activity in Redis, times \(Exposition.number(redisOverheadPercent, divisor: 100))",
                "measured: 326, 264 of them the value"
            ),
            ("\(Numeral.grouped(streamsPerConnection)) streams an APNs connection", "observed by others since 2021"),
            ("\(roundTripMilliseconds) ms to APNs and back", "reported by others"),
            ("\(bytesPerPush) bytes on the wire a push", "the season's bodies"),
            ("\(bytesPerCommand) bytes a command, \(bytesPerResult) a result", "the season's records"),
        ]
    }

    private func micros(_ nanoseconds: Int64) -> String { Exposition.number(nanoseconds, divisor: 1_000) }
}
