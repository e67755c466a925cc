import LiveActivity

/// Makes the keys of an audience, and decodes its directories, for programs without a lane.
public struct AudienceKeyWriter: Sendable {
    private let bundleId: [UInt8]
    private let audience: AudienceDigest

    /// Prepares the keys of an audience; nil if the app's bundle id is empty or too long.
    public init?(app: String, audience: String) {
        bundleId = Array(app.utf8)
        self.audience = Array(audience.utf8).withUnsafeBytes { AudienceDigest(of: $0) }
        guard (1...AudienceStoreKey.appBytesMax).contains(bundleId.count) else { return nil }
    }

    /// The key of the hash that Redis keeps for the audience.
    public var audienceKey: [UInt8] { keyBeginning(segment: nil) }

    public func directoryKey(segment: UInt8) -> [UInt8] {
        keyBeginning(segment: segment) + [AudienceStoreKey.directoryLetter]
    }

    public func pageKey(segment: UInt8, lowerBound: UInt32) -> [UInt8] {
        let suffix = AudienceStoreKey.pageSuffix(lowerBound)
        return keyBeginning(segment: segment) + suffix.indices.map { suffix[$0] }
    }

    /// Returns the lower bounds of a segment's pages: the lowest position that a member on each page can have.
    public static func bounds(ofDirectory bytes: [UInt8]) throws(InspectionError) -> [UInt32] {
        var unread = InspectedField(name: "directory", bytes: bytes[...])
        var bounds: [UInt32] = []
        while !unread.isEmpty {
            bounds.append(UInt32(try unread.readNumber(byteCount: AudienceStoreKey.lowerBoundByteCount)))
        }
        return bounds
    }

    /// Returns the bytes with which all keys of a segment begin. If `segment` is nil, returns the key of the audience's
    /// hash.
    private func keyBeginning(segment: UInt8?) -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: AudienceStoreKey.bytesMax)
        let byteCount = buffer.withUnsafeMutableBytes { buffer in
            bundleId.withUnsafeBytes { AudienceStoreKey.write(app: $0, audience, segment: segment, to: buffer) }
        }
        return Array(buffer[..<(byteCount ?? 0)])
    }
}
