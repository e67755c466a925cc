import Reactor
import RedisTestbed
import Testbed
import Testing

@testable import Redis

/// A cluster of real servers. The hash slots are shared evenly among the primaries. Each primary may have a replica.
final class ClusterProcesses {
    let primaries: [RedisServer]
    let replicas: [RedisServer]
    /// Primaries without slots. A server is in this condition after it was added to a cluster, until slots are moved to
    /// it.
    let emptyPrimaries: [RedisServer]
    private(set) var identifiers: [String] = []

    var nodes: [RedisServer] { primaries + replicas + emptyPrimaries }
    var url: String { "redis://" + primaries.map(\.location).joined(separator: ",") }

    init(
        primaryCount: Int,
        emptyPrimaryCount: Int = 0,
        hasReplicas: Bool,
        _ arguments: [String] = []
    ) throws {
        // If a primary stays silent for this time, its replica replaces it. On a busy machine a node may be silent for
        // a second, and a test that expects no failure must get none.
        let nodeTimeoutMilliseconds = hasReplicas ? 3_000 : 5_000
        // With the validity factor 0, a replica takes over however long it has been without its primary.
        func startNode() throws -> RedisServer {
            try RedisServer(
                [
                    "--cluster-enabled", "yes", "--cluster-node-timeout", String(nodeTimeoutMilliseconds),
                    "--cluster-port", String(try Listener.findUnusedLoopbackPort()),
                    "--cluster-replica-validity-factor",
                    "0",
                    "--cluster-allow-replica-migration", "no",
                ] + arguments
            )
        }
        primaries = try (0..<primaryCount).map { _ in try startNode() }
        replicas = try hasReplicas ? (0..<primaryCount).map { _ in try startNode() } : []
        emptyPrimaries = try (0..<emptyPrimaryCount).map { _ in try startNode() }
        identifiers = nodes.map { $0.command("CLUSTER", "MYID").first ?? "" }
        for (index, primary) in primaries.enumerated() {
            let slots = Self.slots(of: index, among: primaryCount)
            primary.command("CLUSTER", "SET-CONFIG-EPOCH", String(index + 1))
            primary.command("CLUSTER", "ADDSLOTSRANGE", String(slots.lowerBound), String(slots.upperBound - 1))
        }
        let busPort = primaries[0].command("CONFIG", "GET", "cluster-port").last ?? ""
        for node in nodes.dropFirst() {
            node.command("CLUSTER", "MEET", "127.0.0.1", String(primaries[0].port), busPort)
        }
        try waitUntil(nodes, show: "links to all nodes") { node in
            node.command("CLUSTER", "NODES").countOccurrences(of: " connected") == nodes.count
        }
        for (index, replica) in replicas.enumerated() {
            try waitUntil([replica], show: "the role of a replica") {
                $0.command("CLUSTER", "REPLICATE", identifiers[index]) == ["OK"]
            }
        }
        try waitUntil(nodes, show: "a complete cluster") { node in
            node.command("CLUSTER", "INFO").first?.contains("cluster_state:ok") == true
                && node.command("CLUSTER", "SLOTS").countOccurrences(of: "127.0.0.1") == nodes.count
                    - emptyPrimaries.count
        }
        try waitUntil(replicas, show: "a link to the primary") {
            $0.command("INFO", "replication").first?.contains("master_link_status:up") == true
        }
    }

    static func slots(of primary: Int, among count: Int) -> Range<Int> {
        (primary * KeyHashSlot.hashSlotCount / count)..<((primary + 1) * KeyHashSlot.hashSlotCount / count)
    }

    /// Waits until each replica has what its primary has written before this call.
    func finishReplication() throws {
        for (primary, replica) in zip(primaries, replicas) { try awaitReplication(from: primary, to: replica) }
    }

    func keyCount(_ nodes: [RedisServer]) -> Int {
        nodes.reduce(0) { $0 + (Int($1.command("DBSIZE").first ?? "") ?? 0) }
    }
}

extension [String] {
    /// Returns how often the text occurs in all strings together, also inside longer words.
    func countOccurrences(of text: String) -> Int {
        reduce(0) { $0 + $1.ranges(of: text).count }
    }
}

/// Waits until the replica has what the primary has written before this call. Redis' `WAIT` cannot be used: it waits
/// only for the writes of its own connection.
func awaitReplication(from primary: RedisServer, to replica: RedisServer) throws {
    let writtenBytes = try #require(primary.replicationOffset("master_repl_offset"))
    try waitUntil([replica], show: "the primary's offset") {
        $0.replicationOffset("slave_repl_offset") ?? -1 >= writtenBytes
    }
}

extension RedisServer {
    /// Returns an offset of `INFO replication`, in bytes of the replication stream; nil if the server does not name it.
    fileprivate func replicationOffset(_ name: String) -> Int? {
        let lines = command("INFO", "replication").first?.split(whereSeparator: \.isNewline) ?? []
        return lines.first { $0.hasPrefix(name + ":") }.flatMap { Int($0.dropFirst(name.count + 1)) }
    }
}

/// Polls the servers until the condition holds for each, because they announce no changes.
func waitUntil(_ servers: [RedisServer], show awaitedState: String, _ condition: (RedisServer) -> Bool) throws {
    for server in servers {
        try eventually("\(awaitedState) at \(server.location)", every: .milliseconds(10)) { condition(server) }
    }
}
