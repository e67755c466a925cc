import Numbers
import Observability

/// The measured costs behind a plan, each with its source.
///
/// Unless a number names another source, the machine had two shared processors of an AMD EPYC (family 25) with Debian
/// 12, Swift 6.3.1, librdkafka 2.0.2, OpenSSL 3.0 and Redis 7.0. To measure on your machine, run `causeway-lab backlog`
/// for `cpuNanosecondsPerCommand` and `cpuNanosecondsPerPush`, and `make demo` for `lowLoadProcessorHundredths`.
package struct MeasuredCosts: Sendable, Equatable {
    /// CPU of the whole worker process at full load for a command that is not pushed, usually because a newer command
    /// replaces it. Measured: a backlog of 1,000,000 commands for 20,000 activities (`causeway-lab backlog`, one lane)
    /// took 1.04 s, including its 20,000 pushes and the start of the process. Many activities show the same content
    /// state, which the lane decodes once. If each activity has a state of its own, the cost is 50 % higher.
    package var cpuNanosecondsPerCommand: Int64 = 1_500
    /// CPU of the whole worker process at full load for a push, in addition to the CPU for its command: two Redis
    /// calls, one HTTP/2 request over TLS, the response and the result. At 75,000 to 100,000 pushes a second from one
    /// worker, a push and its command together took 9.4 to 12 µs. This number is 12 µs minus
    /// `cpuNanosecondsPerCommand`.
    package var cpuNanosecondsPerPush: Int64 = 10_500
    /// The additional CPU of a worker at low load, in hundredths of a processor: it wakes up often, each time for only
    /// a few records. At full load, a worker rarely sleeps, and this cost is absent. Measured: `make demo` (718,800
    /// commands and 162,090 pushes in 60 s, one worker with two lanes) took 8.71 s of CPU. `cpuNanosecondsPerCommand`
    /// and `cpuNanosecondsPerPush` explain 2.78 s. The other 5.93 s are 0.1 processor for 60 s.
    package var lowLoadProcessorHundredths: Int64 = 10

    /// Script calls that one Redis server executes in a second, half of them admissions and half settlements. Measured:
    /// 80,000 to 107,000 if each call is a Redis command of its own, as in a cluster; 180,000 if calls leave in
    /// batches. The plan uses the lowest value.
    package var callsPerSecondPerRedisProcessor: Int64 = 80_000
    /// Script calls for each push: one admits the command, and one settles its outcome.
    package var redisCallsPerPush: Int64 = 2
    /// Bytes of an activity with its token: key, value, the allocator's rounding and a share of Redis' tables.
    /// Measured: 326 bytes. Redis' command MEMORY USAGE counts only 264 of them.
    package var redisBytesPerActivity: Int64 = 330
    /// Bytes of a device's hash with one push-to-start token, including the allocator's rounding and a share of Redis'
    /// tables.
    package var redisBytesPerDevice: Int64 = 400
    /// Bytes that Redis keeps for an activity that is started again after its lifetime: its start, its newest update,
    /// and its entries in the timetable. Measured: 1,792 bytes with a start of 700 bytes and an update of 456 bytes.
    /// The largest commands need 9 kB.
    package var redisBytesPerRestart: Int64 = 1_800
    /// The whole memory of Redis, in per cent of the memory of its keys. The part above 100 is for tables, buffers and
    /// fragmentation. Redis' documentation assumes 110 to 150 per cent.
    package var redisMemoryPercentOfKeys: Int64 = 150

    /// CPU of the whole worker process for one member in a round: reading its page, one HTTP/2 request over TLS, and
    /// its response.
    ///
    /// Measured: one worker of `causeway-lab fanout` took 2.4 to 3.2 µs at 10,000 to 1,000,000 members. For comparison,
    /// the load generator h2load took 4.5 to 5.4 µs for a push.
    package var cpuNanosecondsPerMember: Int64 = 3_000
    /// Redis' CPU for one member in a round. Measured: 0.24 to 0.41 µs.
    package var redisCPUNanosecondsPerMember: Int64 = 400
    /// Bytes of a member on its page, with a UUID as id and a token of 160 digits. This includes the allocator's
    /// rounding and a share of the list of pages that each segment has. Measured: up to 226 on Redis 7.4 to 8.2 and
    /// Valkey 8.1, and 121 to 131 on Redis 7.0. The plan uses the highest value.
    package var redisBytesPerMember: Int64 = 226
    /// The time from the record of a command to the first push to a member. In this time, records pass through Kafka
    /// twice, and the worker admits the command, claims a range and reads a page. Measured on one machine: 0.23 s until
    /// 2,000 members were reached.
    package var firstFanoutPushMilliseconds: Int64 = 250

    /// Concurrent streams that APNs allows on one connection. APNs announces this limit on each connection. Users of
    /// the APNs client Pushy have observed this number since 2021 (issue 878 of github.com/jchambers/pushy).
    package var streamsPerConnection: Int64 = 1_000
    /// The time from a data centre to Apple and back. Public reports name tens of milliseconds; this number is at their
    /// upper end.
    package var roundTripMilliseconds: Int64 = 60
    /// Bytes on the wire for one push of the cricket season in `make demo`: body, header block, frames and TLS.
    package var bytesPerPush: Int64 = 700

    /// Bytes of one update command of the cricket season in `make demo`, as the producer wrote it.
    package var bytesPerCommand: Int64 = 456
    /// Bytes of a result record, uncompressed.
    package var bytesPerResult: Int64 = 450
    /// The planned load of one partition, bytes a second. A partition can usually take twice as much (10 MB/s). The
    /// other half lets a broker catch up after a failover.
    package var partitionBytesPerSecond: Int64 = 5_000_000

    package init() {}

    /// The costs behind the plan of single commands, each as a line of text with its source.
    var costLines: [(text: String, source: String)] {
        [
            (
                "\(microseconds(cpuNanosecondsPerCommand)) µs of CPU a command at full load",
                "1,000,000 merged into 20,000: 1.04 s, pushes included"
            ),
            (
                "\(microseconds(cpuNanosecondsPerPush)) µs of CPU a push at full load, without its command",
                "75,000 to 100,000 a second: 9.4 to 12 µs with its command"
            ),
            (
                """
                \(Numeral.exactQuotient(lowLoadProcessorHundredths, divisor: 100)) cores a worker for waking up at a \
                low rate
                """,
                "season of make demo: 8.71 s in 60 s, less the two above"
            ),
            (
                "\(Numeral.grouped(callsPerSecondPerRedisProcessor)) script calls a second for one Redis core",
                "measured: 80,000 to 107,000, each a command"
            ),
            ("\(redisCallsPerPush) script calls for each push", "admit and settle"),
            (
                """
                \(redisBytesPerActivity) bytes an activity in Redis, times \
                \(Numeral.exactQuotient(redisMemoryPercentOfKeys, divisor: 100))
                """,
                "measured: 326, 264 of them by MEMORY USAGE"
            ),
            ("\(Numeral.grouped(streamsPerConnection)) streams an APNs connection", "observed by others since 2021"),
            ("\(roundTripMilliseconds) ms to APNs and back", "reported by others"),
            ("\(bytesPerPush) bytes on the wire a push", "the season's bodies"),
            ("\(bytesPerCommand) bytes a command, \(bytesPerResult) a result", "the season's records"),
        ]
    }

    /// The cost of activities that are started again after their lifetime, in addition to `costLines`.
    var restartCostLine: (text: String, source: String) {
        (
            "\(Numeral.grouped(redisBytesPerRestart)) bytes in Redis an activity with afterLifetime: restart, times "
                + Numeral.exactQuotient(redisMemoryPercentOfKeys, divisor: 100),
            "measured: 1,792, with a start of 700 bytes and an update of 456"
        )
    }

    /// The costs behind the plan of an audience.
    var audienceCostLines: [(text: String, source: String)] {
        [
            (
                "\(microseconds(cpuNanosecondsPerMember)) µs of CPU a member of a round",
                "causeway-lab fanout: 2.4 to 3.2, compared with 4.5 to 5.4 a push for h2load"
            ),
            (
                """
                \(Numeral.exactQuotient(lowLoadProcessorHundredths, divisor: 100)) cores a worker for waking up at a \
                low rate
                """,
                "season of make demo"
            ),
            (
                "\(microseconds(redisCPUNanosecondsPerMember)) µs of Redis a member of a round",
                "causeway-lab fanout: 0.24 to 0.41"
            ),
            (
                "\(redisBytesPerMember) bytes a member in Redis, and \(redisBytesPerActivity) an activity, times "
                    + "\(Numeral.exactQuotient(redisMemoryPercentOfKeys, divisor: 100))",
                "measured: 121 to 226, depending on Redis' version, and 326"
            ),
            ("\(Numeral.grouped(streamsPerConnection)) streams an APNs connection", "observed by others since 2021"),
            ("\(roundTripMilliseconds) ms to APNs and back", "reported by others"),
            (
                "\(firstFanoutPushMilliseconds) ms from a command's record to its first push",
                "2,000 members on one machine: 0.23 s"
            ),
            ("\(bytesPerPush) bytes on the wire a push", "the season's bodies"),
        ]
    }

    private func microseconds(_ nanoseconds: Int64) -> String { Numeral.exactQuotient(nanoseconds, divisor: 1_000) }
}
