import Foundation

/// A request in the log of nghttpd, which prints it with `--verbose` and `--hexdump`.
struct ReceivedRequest: Equatable {
    var fields: [[String]] = []
    var body: [UInt8] = []

    /// Returns the complete requests in a log, in the order of their connections and streams.
    static func read(_ log: String) -> [ReceivedRequest] {
        var requests: [String: ReceivedRequest] = [:]
        var order: [String] = []
        for line in log.split(separator: "\n") {
            guard
                let match = line.firstMatch(
                    of: /^\[id=(\d+)\] \[ *[\d.]+\] recv \(stream_id=(\d+)(?:, sensitive)?\) (:?[^:]+): (.*)$/
                )
            else { continue }
            let key = "\(match.1) \(match.2)"
            if requests[key] == nil { order.append(key) }
            requests[key, default: ReceivedRequest()].fields.append([String(match.3), String(match.4)])
        }
        let bodies = connections(in: log).flatMap(bodies(of:))
        guard bodies.count == order.count else { return [] }
        return zip(order, bodies)
            .compactMap { key, body in
                requests[key].map { ReceivedRequest(fields: $0.fields, body: body) }
            }
    }

    /// Returns the decrypted bytes of each connection. Connections must not overlap in the log.
    private static func connections(in log: String) -> [[UInt8]] {
        let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        var connections: [[UInt8]] = []
        var dump: [UInt8] = []
        for line in log.split(separator: "\n") {
            guard let match = line.firstMatch(of: /^([0-9a-f]{8})(  [0-9a-f ]+)?(\|.*)?$/),
                let offset = Int(match.1, radix: 16)
            else { continue }
            // The hex dump prints `*` for lines that repeat the line before.
            while dump.count < offset, dump.count >= 16 { dump += dump.suffix(16) }
            guard let digits = match.2 else {
                if dump.starts(with: preface) {
                    connections.append(Array(dump.dropFirst(preface.count)))
                } else if !connections.isEmpty {
                    connections[connections.count - 1] += dump
                }
                dump = []
                continue
            }
            dump += digits.split(separator: " ").compactMap { UInt8($0, radix: 16) }
        }
        return connections
    }

    /// Returns the bodies of the streams that the client has ended, in the order of the streams' numbers.
    private static func bodies(of connection: [UInt8]) -> [[UInt8]] {
        var bodies: [Int: [UInt8]] = [:]
        var endedStreams: Set<Int> = []
        var rest = connection[...]
        while rest.count >= 9 {
            let header = Array(rest.prefix(9))
            let count = Int(header[0]) << 16 | Int(header[1]) << 8 | Int(header[2])
            let stream = header[5...].reduce(0) { $0 << 8 | Int($1) }
            let payload = rest.dropFirst(9).prefix(count)
            rest = rest.dropFirst(9 + count)
            guard header[3] <= 1 else { continue }
            if header[3] == 0 { bodies[stream, default: []] += payload }
            if header[4] & 1 != 0 { endedStreams.insert(stream) }
        }
        return endedStreams.sorted().map { bodies[$0] ?? [] }
    }
}
