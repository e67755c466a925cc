import APNs
import CAllocationCount
import Glibc
import Reactor

/// Keeps as many pushes in flight as the pool accepts, or sends at a given rate, and counts them.
final class Sender: PushHandler, TimerHandler {
    /// Only one push of this many is timed, so that reading the clock does not affect the figure.
    private static let latencySampleInterval: UInt64 = 64
    private static let tickMilliseconds: Int64 = 1

    unowned let loop: EventLoop
    var pool: Pool?
    /// The sender begins to measure when this many connections send pushes and the warm-up is over.
    var wantedConnectionCount = 1
    private let pushCount: Int
    private let demand: Demand
    private let tokens: DeviceTokens
    private let body: UnsafeMutableRawBufferPointer

    private var submittedCount: UInt64 = 0
    private(set) var responseCount = 0
    private(set) var acceptedCount = 0
    private var authenticatedConnectionCount = 0
    private var peakConnectionCount = 0
    private var startSample: ProcessSample?
    private var endSample: ProcessSample?
    private var warmUpPushCount = 0
    /// A number for each sampled push. Before the response: the negative time of the submission. After the response:
    /// the time from the submission to the response.
    private var latencyNanoseconds: [Int64]
    private var pacingBeganAtMilliseconds: Int64 = 0
    private var hasPacingBegun = false

    init(loop: EventLoop, count: Int, demand: Demand, bodyBytes: Int, tokens: DeviceTokens) {
        self.loop = loop
        pushCount = count
        self.demand = demand
        self.tokens = tokens
        body = .allocate(byteCount: max(1, bodyBytes), alignment: 16)
        for index in body.indices { body[index] = UInt8(ascii: " ") }
        let text = #"{"aps":{"timestamp":1790000000,"event":"update","content-state":{"home":2,"away":1}}}"#
        for (index, byte) in text.utf8.enumerated() where index < bodyBytes { body[index] = byte }
        if bodyBytes == 0 { body[0] = 0 }
        self.bodyBytes = bodyBytes
        latencyNanoseconds = [Int64](repeating: 0, count: count / Int(Sender.latencySampleInterval) + 2)
    }

    private let bodyBytes: Int

    deinit { body.deallocate() }

    func begin() {
        _ = submitOne()
    }

    // MARK: - Sending

    private func submitOne() -> Bool {
        guard let pool, submittedCount < UInt64(pushCount) else { return false }
        let number = submittedCount
        let isTaken = tokens.withNext(number) { token in
            pool.submit(
                PushRequest(
                    tag: number,
                    address: token,
                    priority: number & 7 == 0 ? 10 : 5,
                    expirationSeconds: 1_790_000_000 + Int64(truncatingIfNeeded: number & 0xFFF),
                    identifier: (0x0102_0304_0506_4708, number &* 0x9E37_79B9_7F4A_7C15),
                    body: UnsafeRawBufferPointer(rebasing: body[..<bodyBytes])
                )
            )
        }
        guard isTaken else { return false }
        if number % Self.latencySampleInterval == 0 {
            latencyNanoseconds[Int(number / Self.latencySampleInterval)] = -ProcessSample.nanoseconds(CLOCK_MONOTONIC)
        }
        submittedCount += 1
        return true
    }

    /// Submits as many pushes as the pool accepts, or as many as are due at the given rate.
    private func submitDuePushes() {
        guard demand.isPaced, hasPacingBegun else {
            while submitOne() {}
            return
        }
        let due =
            warmUpPushCount + demand.duePushCount(afterMilliseconds: loop.nowMilliseconds - pacingBeganAtMilliseconds)
        while submittedCount < UInt64(due), submitOne() {}
    }

    func timerFired(tag: UInt64) {
        guard endSample == nil else { return }
        submitDuePushes()
        _ = loop.schedule(afterMilliseconds: Self.tickMilliseconds, handler: self, tag: 0)
    }

    // MARK: - Responses

    func pushResponseReceived(_ response: borrowing PushResponse) {
        responseCount += 1
        if response.disposition == .accepted { acceptedCount += 1 }
        if response.tag % Self.latencySampleInterval == 0 {
            latencyNanoseconds[Int(response.tag / Self.latencySampleInterval)] += ProcessSample.nanoseconds(
                CLOCK_MONOTONIC
            )
        }
        if startSample == nil, authenticatedConnectionCount >= wantedConnectionCount,
            responseCount >= min(20_000, pushCount / 10)
        {
            beginCounting()
        }
        if responseCount == pushCount {
            endSample = ProcessSample()
            loop.stop()
        } else if !demand.isPaced {
            submitDuePushes()
        }
    }

    private func beginCounting() {
        warmUpPushCount = responseCount
        startSample = ProcessSample()
        guard demand.isPaced else { return }
        // From here on, pushes are sent at the given rate. Pushes in flight belong to the warm-up and are not counted.
        warmUpPushCount = Int(submittedCount)
        pacingBeganAtMilliseconds = loop.nowMilliseconds
        hasPacingBegun = true
        _ = loop.schedule(afterMilliseconds: Self.tickMilliseconds, handler: self, tag: 0)
    }

    func poolHasRoom(_ pool: Pool) { submitDuePushes() }

    func poolReported(_ event: PoolEvent) {
        switch event {
        case .authenticated:
            authenticatedConnectionCount += 1
            peakConnectionCount = max(peakConnectionCount, authenticatedConnectionCount)
        case .closed(_, let cause, let detail):
            if cause != .poolClosed, cause != .retired { printError("connection closed: \(cause) \(detail)") }
            authenticatedConnectionCount -= 1
        case .breakerOpened(let cause):
            fail("the server refuses the pushes: \(cause.name)")
        default:
            break
        }
    }

    // MARK: - Figures

    /// Returns the figures as one line of JSON.
    func report(connections: Int, inFlight: Int, latencyMilliseconds: Int, spacingMicroseconds: Int) -> String {
        guard let startSample, let endSample else { return "{}" }
        guard responseCount > warmUpPushCount, endSample.wallNanoseconds > startSample.wallNanoseconds else {
            fail("nothing was left to count after the warm-up: --count must be well above --in-flight")
        }
        let pushes = Double(responseCount - warmUpPushCount)
        let seconds = Double(endSample.wallNanoseconds - startSample.wallNanoseconds) / 1e9
        let userMicroseconds = Double(endSample.userMicroseconds - startSample.userMicroseconds) / pushes
        let systemMicroseconds = Double(endSample.systemMicroseconds - startSample.systemMicroseconds) / pushes
        let sorted =
            latencyNanoseconds.prefix(
                Int((submittedCount + Self.latencySampleInterval - 1) / Self.latencySampleInterval)
            )
            .sorted()
        func percentile(_ share: Double) -> Double {
            sorted.isEmpty ? 0 : Double(sorted[min(sorted.count - 1, Int(share * Double(sorted.count)))]) / 1e6
        }
        func text(_ number: Double) -> String {
            let thousandths = Int64((number * 1_000).rounded())
            let fraction = String(abs(thousandths) % 1_000)
            return "\(thousandths / 1_000)." + String(repeating: "0", count: 3 - fraction.count) + fraction
        }
        let fields: [(name: String, json: String)] = [
            ("pushes", String(responseCount)), ("accepted", String(acceptedCount)),
            ("pushesPerSecond", String(Int(pushes / seconds))),
            ("cpuMicrosecondsPerPush", text(userMicroseconds + systemMicroseconds)),
            ("userMicrosecondsPerPush", text(userMicroseconds)),
            ("systemMicrosecondsPerPush", text(systemMicroseconds)),
            ("allocationsPerPush", text(Double(endSample.allocationCount - startSample.allocationCount) / pushes)),
            ("peakMemoryBytes", String(endSample.peakMemoryBytes)),
            (
                "latencyMilliseconds",
                "{"
                    + [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1)]
                    .map { "\"\($0.0)\":\(text(percentile($0.1)))" }.joined(separator: ",") + "}"
            ),
            ("connections", String(connections)), ("connectionsPeak", String(peakConnectionCount)),
            ("connectionsAtEnd", String(authenticatedConnectionCount)),
            ("inFlight", String(inFlight)), ("roundTripMilliseconds", String(latencyMilliseconds)),
            ("turnIntervalMicrosecondsMin", String(spacingMicroseconds)),
        ]
        return "{" + fields.map { "\"\($0.name)\":\($0.json)" }.joined(separator: ",") + "}"
    }
}

/// How many pushes a second are sent: `pushesPerSecond` at first, and `laterPushesPerSecond` after
/// `changesAfterSeconds`.
struct Demand {
    /// 0 means as many as the pool accepts.
    var pushesPerSecond: Int
    var laterPushesPerSecond: Int
    var changesAfterSeconds: Int

    var isPaced: Bool { pushesPerSecond > 0 }

    /// Returns the number of pushes that are due by the given time.
    func duePushCount(afterMilliseconds elapsedMilliseconds: Int64) -> Int {
        let firstRateMilliseconds = min(elapsedMilliseconds, Int64(changesAfterSeconds) * 1_000)
        return Int(
            (Int64(pushesPerSecond) * firstRateMilliseconds + Int64(laterPushesPerSecond)
                * (elapsedMilliseconds - firstRateMilliseconds))
                / 1_000
        )
    }
}

/// The process's clocks and counters at one moment.
struct ProcessSample {
    let wallNanoseconds = ProcessSample.nanoseconds(CLOCK_MONOTONIC)
    let userMicroseconds: Int64
    let systemMicroseconds: Int64
    let peakMemoryBytes: Int
    let allocationCount = CAllocationCount_total()

    init() {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        userMicroseconds = ProcessSample.microseconds(usage.ru_utime)
        systemMicroseconds = ProcessSample.microseconds(usage.ru_stime)
        peakMemoryBytes = usage.ru_maxrss * 1_024
    }

    static func microseconds(_ time: timeval) -> Int64 { Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_usec) }

    static func nanoseconds(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
