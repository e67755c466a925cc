import Numbers

/// What a server says about itself in its reply to `INFO server`.
public struct ServerInformation: Sendable, Equatable {
    /// The major number from the line `redis_version:7.0.15`; nil if the server does not report it.
    public private(set) var majorVersion: Int?
    /// The run id, which changes with each start of the server; nil if the server does not report it.
    public private(set) var runIdentifier: String?
    /// Whether the server reports that it belongs to a cluster. All keys of a command must then be in one hash slot.
    public private(set) var isClusterEnabled = false

    private static let valueBytesMax = 64

    init(_ text: UnsafeRawBufferPointer) {
        for line in text.split(whereSeparator: { $0 == 0x0A || $0 == 0x0D }) {
            if let value = Self.value(of: "redis_version:", in: line) {
                let digits = value.prefix { (0x30...0x39).contains($0) }
                majorVersion = Decimal.parse(UnsafeRawBufferPointer(rebasing: digits)).flatMap { Int(exactly: $0) }
            } else if let value = Self.value(of: "run_id:", in: line) {
                runIdentifier = String(decoding: value, as: UTF8.self)
            } else if let value = Self.value(of: "redis_mode:", in: line) ?? Self.value(of: "server_mode:", in: line) {
                isClusterEnabled = value.elementsEqual("cluster".utf8)
            }
        }
    }

    private static func value(
        of name: StaticString,
        in line: Slice<UnsafeRawBufferPointer>
    ) -> Slice<UnsafeRawBufferPointer>? {
        guard line.starts(with: name.bytes) else { return nil }
        let value = line.dropFirst(name.utf8CodeUnitCount)
        return value.isEmpty || value.count > valueBytesMax ? nil : value
    }
}

extension RedisTopology {
    /// Whether a server with this information fits the configured topology. False if a server of a cluster is
    /// configured as `single` or `sentinel`. `cluster` needs no check here: the look-up of the hash slots fails at a
    /// server without a cluster.
    func accepts(_ server: ServerInformation) -> Bool {
        if case .cluster = self { true } else { !server.isClusterEnabled }
    }
}
