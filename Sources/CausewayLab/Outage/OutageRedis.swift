import CausewayCommandLine
import Glibc

/// The redis-servers of a case. A case can freeze them, kill them, and start them again without data.
final class OutageRedis {
    /// How long the case waits for a server to become ready, or to end.
    private static let processWaitMillisecondsMax: Int64 = 10_000
    private static let hashSlotCount = 16_384

    private struct Server {
        var port: UInt16
        /// The command-line arguments that only this server has. They follow the arguments that all servers have.
        var arguments: [String] = []
        var process: ChildProcess?
    }

    private let topology: OutageRedisTopology
    private let deployment: Deployment
    private var servers: [Server] = []
    private var sentinel: Server?

    init(_ topology: OutageRedisTopology, on deployment: Deployment) {
        self.topology = topology
        self.deployment = deployment
    }

    func start() throws(LabError) {
        switch topology {
        case .single: try addServer()
        case .sentinel: try startWithSentinel()
        case .cluster(let primaryCount): try startCluster(primaryCount)
        }
    }

    func stop() {
        sentinel?.process?.stop(graceMilliseconds: 0)
        for server in servers { server.process?.stop(graceMilliseconds: 0) }
    }

    /// The settings of the section `redis` in a worker's configuration.
    var configuration: WorkerConfigurationText.Settings {
        let addresses = servers.map { "127.0.0.1:\($0.port)" }
        return switch topology {
        case .single: [("url", "redis://\(addresses[0])/0")]
        case .sentinel:
            [
                ("mode", "sentinel"), ("url", "redis://\(Self.primaryName)"),
                ("sentinelURL", "redis://127.0.0.1:\(sentinel?.port ?? 0)"),
            ]
        case .cluster: [("mode", "cluster"), ("url", "redis://\(addresses.joined(separator: ","))")]
        }
    }

    // MARK: - Topologies

    private func addServer(_ arguments: [String] = []) throws(LabError) {
        servers.append(Server(port: try LoopbackPort.findFree(), arguments: arguments))
        try start(servers.count - 1)
    }

    private static let primaryName = "mymaster"

    /// Starts a primary, a replica, and one Sentinel that fails over quickly.
    private func startWithSentinel() throws(LabError) {
        try addServer()
        try addServer(["--replicaof", "127.0.0.1", String(servers[0].port)])
        try wait("a replica that follows") {
            Deployment.requestRedisReply(port: servers[0].port, to: "WAIT 1 100") == ":1"
        }
        let file = deployment.path("sentinel.conf")
        let port = try LoopbackPort.findFree()
        try TextFile.write(
            """
            bind 127.0.0.1
            port \(port)
            dir \(deployment.directory)
            sentinel monitor \(Self.primaryName) 127.0.0.1 \(servers[0].port) 1
            sentinel down-after-milliseconds \(Self.primaryName) 1000
            sentinel failover-timeout \(Self.primaryName) 15000

            """,
            to: file
        )
        let process = try ChildProcess(
            name: "Sentinel",
            command: [try Self.findServerProgram(), file, "--sentinel"],
            logFile: deployment.path("sentinel.log")
        )
        sentinel = Server(port: port, process: process)
        try awaitReply(port, of: process)
    }

    /// Starts primaries without replicas, each with an equal part of the hash slots.
    private func startCluster(_ primaryCount: Int) throws(LabError) {
        var busPorts: [UInt16] = []
        for index in 0..<primaryCount {
            busPorts.append(try LoopbackPort.findFree())
            try addServer([
                "--cluster-enabled", "yes", "--cluster-config-file", "nodes-\(index).conf",
                "--cluster-port", String(busPorts[index]), "--cluster-node-timeout", "1500",
                "--cluster-require-full-coverage", "no",
            ])
        }
        for index in 0..<primaryCount {
            let (first, next) = (
                Self.hashSlotCount * index / primaryCount, Self.hashSlotCount * (index + 1) / primaryCount
            )
            try sendCommand(servers[index].port, "CLUSTER ADDSLOTSRANGE \(first) \(next - 1)")
            try sendCommand(servers[0].port, "CLUSTER MEET 127.0.0.1 \(servers[index].port) \(busPorts[index])")
        }
        try wait("a cluster whose servers know each other") {
            servers.allSatisfy { server in
                Deployment.requestRedisReply(port: server.port, to: "CLUSTER SLOTS") == "*\(primaryCount)"
                    && Deployment.requestRedisReply(port: server.port, to: "GET probe")?.hasPrefix("-CLUSTERDOWN")
                        == false
            }
        }
    }

    // MARK: - Breaking the servers

    func requireServer(_ index: Int) throws(LabError) -> ChildProcess {
        guard servers.indices.contains(index), let process = servers[index].process else {
            throw LabError("there is no redis-server \(index)")
        }
        return process
    }

    /// The servers that no step has killed, and the Sentinel.
    var processes: [ChildProcess] { (servers + (sentinel.map { [$0] } ?? [])).compactMap(\.process) }

    /// Kills a server, as if its machine failed.
    func kill(_ index: Int) throws(LabError) {
        let process = try requireServer(index)
        process.signal(SIGKILL)
        _ = process.wait(timeoutMilliseconds: Self.processWaitMillisecondsMax)
        servers[index].process = nil
    }

    /// Starts a server on its port, without data, because no server writes data to disk. A server of a cluster still
    /// knows its hash slots.
    func start(_ index: Int) throws(LabError) {
        let server = servers[index]
        let process = try ChildProcess(
            name: "redis-server",
            command: [
                try Self.findServerProgram(), "--bind", "127.0.0.1", "--port", String(server.port), "--save", "",
                "--appendonly", "no", "--dir", deployment.directory, "--dbfilename", "redis-\(index).rdb",
                "--repl-diskless-sync-delay", "0",
            ] + server.arguments,
            logFile: deployment.path("redis-\(index).log")
        )
        servers[index].process = process
        try awaitReply(server.port, of: process)
    }

    /// Deletes all data of all servers (FLUSHALL). Fails if a server is a replica.
    func wipe() throws(LabError) {
        for server in servers { try sendCommand(server.port, "FLUSHALL") }
    }

    /// Separates the replica from its primary, so that a failover to the replica loses writes.
    ///
    /// `REPLICAOF` makes the replica follow port 1, where no server listens, until Sentinel corrects this after its
    /// `failover-timeout`. A frozen replica would lose nothing: it later reads the writes that wait in its socket.
    func cutReplication() throws(LabError) {
        guard case .sentinel = topology else { throw LabError("there is no replica") }
        try sendCommand(servers[1].port, "REPLICAOF 127.0.0.1 1")
    }

    private func sendCommand(_ port: UInt16, _ command: String) throws(LabError) {
        let reply = Deployment.requestRedisReply(port: port, to: command)
        guard reply == "+OK" else { throw LabError("Redis replies with \(reply ?? "nothing") to \(command)") }
    }

    // MARK: - Queries to the servers

    /// Returns the number of keys on all servers except replicas, without marks (R24).
    func countKeys() throws(LabError) -> Int {
        var sum = 0
        for server in sentinel == nil ? servers[...] : servers.prefix(1) {
            sum += try Deployment.countRedisKeys(port: server.port)
        }
        return sum
    }

    // MARK: - Starting and waiting

    private func awaitReply(_ port: UInt16, of process: ChildProcess) throws(LabError) {
        try wait("\(process.name) to reply") {
            process.poll() == nil && Deployment.requestRedisReply(port: port, to: "PING") == "+PONG"
        }
    }

    private func wait(_ awaitedEvent: String, until isMet: () -> Bool) throws(LabError) {
        let deadlineMilliseconds = Clock.monotonicMilliseconds + Self.processWaitMillisecondsMax
        while !isMet() {
            guard Clock.monotonicMilliseconds < deadlineMilliseconds else {
                throw LabError(
                    "waited too long for \(awaitedEvent)",
                    logTail: TextFile.readLastLines(of: deployment.path("redis-0.log"), 20)
                )
            }
            // Sleep and ask again, because Redis does not report when it is ready.
            usleep(10_000)
        }
    }

    private static func findServerProgram() throws(LabError) -> String {
        guard let program = Deployment.findProgram("redis-server") else {
            throw LabError("redis-server is not installed: run apt-get install redis-server")
        }
        return program
    }
}
