import Glibc

/// `compare`: runs `send` and h2load alternately against the same simulator, because times vary with the machine's
/// other load. Client and server have one processor each.
func compare(_ initialArguments: Arguments) throws {
    var arguments = initialArguments
    let count = try arguments.number("count", 200_000, in: 10_000...10_000_000)
    let rounds = try arguments.number("rounds", 5, in: 1...99)
    let inFlight = try arguments.number("in-flight", 1_000, in: 1...4_096)
    let clientProcessor = try arguments.number("client-core", 0, in: 0...1_023)
    let serverProcessor = try arguments.number("server-core", 1, in: 0...1_023)
    let spacingMicroseconds = try arguments.text("turn-spacing", "4000")
    try arguments.checkAllRead()
    print("CPU µs a push, the whole process's, medians of \(rounds) rounds of \(count) pushes, \(inFlight) in flight")
    for (connections, latency) in [(1, 0), (2, 0), (4, 0), (1, 50)] {
        let server = try ChildProcess(
            pinnedCommand(serverProcessor, ["/proc/self/exe", "serve", "--latency", String(latency)])
        )
        defer { server.end() }
        guard let words = server.readLine()?.split(separator: " ").map(String.init), words.count == 5 else {
            throw Arguments.ArgumentError(description: "the simulator did not start")
        }
        let target = SimulatorTarget(
            port: words[0],
            directory: words[1],
            caFile: words[2],
            keyFile: words[3],
            authorization: words[4]
        )
        let load = Load(
            count: count,
            connections: connections,
            inFlight: inFlight,
            spacingMicroseconds: spacingMicroseconds
        )
        try target.writeH2loadFiles()
        var ourMicroseconds: [Double] = []
        var h2loadMicroseconds: [Double] = []
        for _ in 0..<rounds {
            ourMicroseconds.append(
                try measureMicrosecondsPerPush(pinnedCommand(clientProcessor, target.sendCommand(load)), count: count)
            )
            h2loadMicroseconds.append(
                try measureMicrosecondsPerPush(pinnedCommand(clientProcessor, target.h2loadCommand(load)), count: count)
            )
        }
        let (ourMedian, h2loadMedian) = (median(ourMicroseconds), median(h2loadMicroseconds))
        print(
            "\(connections) connection\(connections == 1 ? " " : "s"), responses held back \(latency) ms:"
                + " causeway \(hundredths(ourMedian)), h2load \(hundredths(h2loadMedian)), ratio \(hundredths(ourMedian / h2loadMedian))"
        )
        fflush(nil)
    }
}

private struct Load {
    var count: Int
    var connections: Int
    var inFlight: Int
    var spacingMicroseconds: String
}

private struct SimulatorTarget {
    var port: String
    var directory: String
    var caFile: String
    var keyFile: String
    var authorization: String

    private var addressesFile: String { directory + "/addresses" }
    private var bodyFile: String { directory + "/body" }

    /// Writes h2load's input: the addresses of the tokens that `send` uses, and a body of the same size.
    func writeH2loadFiles() throws(Arguments.ArgumentError) {
        guard let tokens = fopen(directory + "/tokens", "r"), let addresses = fopen(addressesFile, "w"),
            let body = fopen(bodyFile, "w")
        else { throw Arguments.ArgumentError(description: "cannot write to \(directory)") }
        var line = [CChar](repeating: 0, count: 512)
        while fgets(&line, Int32(line.count), tokens) != nil {
            let token = String(
                decoding: line.prefix { $0 != 0 && $0 != 10 }.map(UInt8.init(bitPattern:)),
                as: UTF8.self
            )
            fputs("https://127.0.0.1:\(port)/3/device/\(token)\n", addresses)
        }
        let text = #"{"aps":{"timestamp":1790000000,"event":"update","content-state":{"home":2,"away":1}}}"#
        fputs(text + String(repeating: " ", count: 360 - text.utf8.count), body)
        fclose(tokens)
        fclose(addresses)
        fclose(body)
    }

    func sendCommand(_ load: Load) -> [String] {
        [
            "/proc/self/exe", "send", "--port", port, "--ca", caFile, "--connections", String(load.connections),
            "--in-flight", String(load.inFlight / load.connections), "--count", String(load.count),
            "--turn-spacing", load.spacingMicroseconds, "--tokens", directory + "/tokens", "--key", keyFile,
            "--key-id", SimulatedApp.key, "--team-id", SimulatedApp.team, "--bundle", SimulatedApp.bundle,
        ]
    }

    func h2loadCommand(_ load: Load) -> [String] {
        [
            "h2load", "-n", String(load.count), "-c", String(load.connections), "-t", "1",
            "-m", String(load.inFlight / load.connections), "-i", addressesFile, "-d", bodyFile,
            "-H", "authorization: bearer \(authorization)", "-H", "apns-push-type: liveactivity",
            "-H", "apns-topic: \(SimulatedApp.bundle).push-type.liveactivity", "-H", "apns-priority: 5",
            "-H", "apns-expiration: 1790000000", "-H", "apns-id: 12345678-9abc-4ef0-8234-56789abcdef0",
        ]
    }
}

private func pinnedCommand(_ processor: Int, _ words: [String]) -> [String] {
    // Resolve the path of this program here. In a child that taskset starts, /proc/self/exe would be taskset.
    var path = [CChar](repeating: 0, count: 4_096)
    let count = readlink("/proc/self/exe", &path, path.count)
    let program = String(decoding: path.prefix(max(0, count)).map(UInt8.init(bitPattern:)), as: UTF8.self)
    return ["taskset", "-c", String(processor)] + words.map { $0 == "/proc/self/exe" ? program : $0 }
}

/// Runs a process and returns its CPU time for each push, in microseconds.
private func measureMicrosecondsPerPush(_ words: [String], count: Int) throws -> Double {
    guard let result = try ChildProcess(words).wait() else {
        throw Arguments.ArgumentError(description: "\(words[3]) failed")
    }
    // h2load exits with 0 even if requests fail.
    if let line = result.lines.first(where: { $0.hasPrefix("status codes:") }) {
        let accepted = line.split(separator: " ").dropFirst(2).first.flatMap { Int($0) } ?? 0
        guard accepted * 100 >= count * 99 else { throw Arguments.ArgumentError(description: "h2load: \(line)") }
    }
    return Double(result.cpuMicroseconds) / Double(count)
}

private func median(_ values: [Double]) -> Double {
    let sorted = values.sorted()
    return sorted[sorted.count / 2]
}

private func hundredths(_ number: Double) -> String {
    let whole = Int((number * 100).rounded())
    return "\(whole / 100).\(whole % 100 < 10 ? "0" : "")\(whole % 100)"
}
