import LiveActivity

/// Makes the keys of an audience and decodes its directories, for programs without a lane.
public struct InspectedAudienceKeys: Sendable {
    private let app: [UInt8]
    private let audience: AudienceDigest

    /// Prepares the keys of an audience; nil if the app's bundle id is empty or too long.
    public init?(app: String, audience: String) {
        self.app = Array(app.utf8)
        self.audience = Array(audience.utf8).withUnsafeBytes { AudienceDigest(of: $0) }
        guard (1...AudienceStoreKey.appBytesMax).contains(self.app.count) else { return nil }
    }

    /// The key of the audience's record, a hash.
    public var recordKey: [UInt8] { hashTag(segment: nil) }

    public func directoryKey(segment: UInt8) -> [UInt8] {
        hashTag(segment: segment) + [AudienceStoreKey.directoryLetter]
    }

    public func pageKey(segment: UInt8, lowerBound: UInt32) -> [UInt8] {
        let suffix = AudienceStoreKey.pageSuffix(lowerBound)
        return hashTag(segment: segment) + suffix.indices.map { suffix[$0] }
    }

    /// Returns the lower bounds of a segment's pages: the lowest position that a member of each page can have.
    public static func bounds(ofDirectory bytes: [UInt8]) throws(InspectionError) -> [UInt32] {
        var part = InspectedField(name: "directory", bytes: bytes[...])
        var bounds: [UInt32] = []
        while !part.isEmpty { bounds.append(UInt32(try part.readNumber(bytes: AudienceStoreKey.lowerBoundByteCount))) }
        return bounds
    }

    private func hashTag(segment: UInt8?) -> [UInt8] {
        var memory = [UInt8](repeating: 0, count: AudienceStoreKey.bytesMax)
        let count = memory.withUnsafeMutableBytes { memory in
            app.withUnsafeBytes { AudienceStoreKey.write(app: $0, audience, segment: segment, to: memory) }
        }
        return Array(memory[..<(count ?? 0)])
    }
}
