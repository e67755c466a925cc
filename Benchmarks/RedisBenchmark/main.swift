import ActivityStore
import Glibc
import Reactor
import Redis

// Measures how many admissions a second a real redis-server makes on one processor, and the memory that an
// activity needs there. With the argument `members` or `joins`, it measures what the members of audiences cost instead.
//
// The measure is the CPU time of the server's main thread, not the elapsed time. So the time of other processes is not
// included. But other processes share the processor's caches with the server. So each figure of the admissions is the
// median of several runs.

let activityCount = 100_000
let runCount = 7

/// Measures and prints the calls a second of CPU time: the median of several runs.
///
/// - Parameter prepare: called before each run; its cost is not measured.
func report(_ name: String, _ benchmark: AdmissionBenchmark, prepare: () throws -> Void = {}, _ run: () throws -> Int)
    rethrows
{
    var rates: [Double] = []
    for _ in 0..<runCount {
        try prepare()
        let secondsBefore = benchmark.server.processorSeconds
        let calls = try run()
        rates.append(Double(calls) / (benchmark.server.processorSeconds - secondsBefore))
    }
    rates.sort()
    let microseconds = 1_000_000 / rates[runCount / 2]
    print(
        name.padded(44),
        Int(rates[runCount / 2]).padded(9),
        "/s  (",
        Int(rates[0]),
        "-",
        Int(rates[runCount - 1]),
        "),",
        formatHundredths(microseconds),
        "us"
    )
}

func formatHundredths(_ number: Double) -> String {
    let value = Int((number * 100).rounded())
    return "\(value / 100).\(value % 100 < 10 ? "0" : "")\(value % 100)"
}

extension String {
    func padded(_ width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
}

extension Int {
    func padded(_ width: Int) -> String {
        let text = String(self)
        return String(repeating: " ", count: Swift.max(0, width - text.count)) + text
    }
}

/// Settings that turn off two kinds of work that Causeway's scripts do not need. Redis counts Lua instructions, to
/// notice a script that runs too long. It also keeps a histogram of each command's duration.
let recommendedSettings = ["--busy-reply-threshold", "0", "--latency-tracking", "no"]

func measure(
    _ benchmark: AdmissionBenchmark,
    over transport: RedisServerProcess.Transport,
    admissionsPerCommand: Int,
    _ name: String
) throws {
    try benchmark.connect(over: transport, callsPerCommandMax: admissionsPerCommand)
    let batching =
        admissionsPerCommand == 1
        ? "each admission a command" : "up to \(admissionsPerCommand) admissions a command"
    print("\(benchmark.server.version), \(name), over \(transport), \(batching), calls a second on one core:")
    try report("admit, send at priority 5", benchmark) { try benchmark.sendAll(isHighPriority: false) }
    try report("admit, send at priority 10", benchmark) { try benchmark.sendAll(isHighPriority: true) }
    try report("admit, superseded", benchmark) { try benchmark.supersedeAll() }
    try report(
        "settle, accepted",
        benchmark,
        prepare: { try benchmark.sendAll(isHighPriority: false) },
        { try benchmark.settleAll() }
    )
    try report("admit and settle in turn, each counted", benchmark) { try benchmark.sendAndSettleAll() }
}

/// Measures the cost of members in Redis: they join one after the other, and are read page by page.
func measureMembers(over transport: RedisServerProcess.Transport, callsPerCommandMax: Int) throws {
    let batching = callsPerCommandMax == 1 ? "each join a command" : "up to \(callsPerCommandMax) joins a command"
    print("members of an audience, over \(transport), \(batching), CPU of one core:")
    for members in [10_000, 100_000, 1_000_000] {
        let server = try RedisServerProcess()
        let benchmark = try MemberBenchmark(server: server, over: transport, callsPerCommandMax: callsPerCommandMax)
        let figures = try benchmark.measure(members: members, audience: 1)
        benchmark.close()
        guard figures.readMemberCount == members else {
            throw RedisServerProcess.Failure(description: "\(figures.readMemberCount) of \(members) members were read")
        }
        print(
            members.padded(9),
            "members:",
            Int(figures.bytesPerMember.rounded()),
            "bytes each; joined",
            formatHundredths(figures.joinMicroseconds),
            "us,",
            Int(1_000_000 / figures.joinMicroseconds),
            "/s; read",
            formatThousandths(figures.readMicroseconds),
            "us, and by the reader",
            formatThousandths(figures.clientReadMicroseconds),
            "us; pages",
            figures.pageCount
        )
    }
}

/// Measures the cost of whole registrations of members in Redis: the activities' records and the audiences'
/// pages.
func measureJoins(over transport: RedisServerProcess.Transport, callsPerCommandMax: Int) throws {
    let batching = callsPerCommandMax == 1 ? "each call a command" : "up to \(callsPerCommandMax) calls a command"
    print("registrations that name an audience, over \(transport), \(batching), CPU of one core:")
    for members in [10_000, 100_000, 1_000_000] {
        let server = try RedisServerProcess()
        let benchmark = try JoinBenchmark(server: server, over: transport, callsPerCommandMax: callsPerCommandMax)
        let (joinFigures, moveFigures) = (try benchmark.joinAll(members), try benchmark.moveAll(members))
        benchmark.close()
        print(
            members.padded(9),
            "joined:",
            formatHundredths(joinFigures.microseconds),
            "us,",
            Int(1_000_000 / joinFigures.microseconds),
            "/s,",
            formatThousandths(joinFigures.scriptCallsPerRegistration),
            "scripts each; moved to another audience:",
            formatHundredths(moveFigures.microseconds),
            "us,",
            Int(1_000_000 / moveFigures.microseconds),
            "/s,",
            formatThousandths(moveFigures.scriptCallsPerRegistration),
            "scripts"
        )
    }
}

func formatThousandths(_ number: Double) -> String {
    let value = Int((number * 1_000).rounded())
    return "\(value / 1_000).\(String(value % 1_000 + 1_000).dropFirst())"
}

do {
    let measurementsByName = ["members": measureMembers, "joins": measureJoins]
    if let measureChosen = CommandLine.arguments.dropFirst().first.flatMap({ measurementsByName[$0] }) {
        for (transport, callsPerCommandMax) in [
            (RedisServerProcess.Transport.unix, RedisConnection.callsPerCommandMax),
            (.tcp, RedisConnection.callsPerCommandMax),
            (.tcp, 1),
        ] {
            try measureChosen(transport, callsPerCommandMax)
        }
        exit(0)
    }
    let callsPerCommandMax = RedisConnection.callsPerCommandMax
    for (name, settings) in [("as it comes", []), (recommendedSettings.joined(separator: " "), recommendedSettings)] {
        let server = try RedisServerProcess(settings: settings)
        let benchmark = try AdmissionBenchmark(server: server, activityCount: activityCount)
        let emptyMemoryBytes = server.usedMemoryBytes
        try benchmark.connect(over: .unix, callsPerCommandMax: callsPerCommandMax)
        try benchmark.registerAll()
        try benchmark.sendAll(isHighPriority: true)
        try benchmark.settleAll()
        if settings.isEmpty {
            let bytes = (server.usedMemoryBytes - emptyMemoryBytes) / activityCount
            let gibibytes = Double(bytes) * 10_000_000 / 1_073_741_824
            print(
                "an activity: \(benchmark.memoryUsage()) bytes by MEMORY USAGE, \(bytes) with its share of all tables;"
            )
            print("ten million: \(formatHundredths(gibibytes)) GiB")
        }
        for (transport, admissionsPerCommand) in [
            (RedisServerProcess.Transport.unix, callsPerCommandMax), (.unix, 1), (.tcp, callsPerCommandMax),
        ] {
            try measure(benchmark, over: transport, admissionsPerCommand: admissionsPerCommand, name)
        }
    }
} catch {
    print("RedisBenchmark: \(error)")
    exit(1)
}
