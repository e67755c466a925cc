import LiveActivity

/// The keys of an audience. In a cluster, all keys of a segment are in one hash slot, because they have the same hash
/// tag: the part in braces.
///
/// | key | value |
/// | --- | --- |
/// | `{app@DIGEST}` | the audience's hash |
/// | `{app@DIGEST SEGMENT}d` | the directory of a segment |
/// | `{app@DIGEST SEGMENT}pBOUND` | a page of a segment, named by its lower bound |
///
/// A key has no spaces; in this table they only separate its parts. The digest has eleven letters of six bits each, and
/// the segment has two, lowest bits first. The bound has four bytes, little-endian. No letter is a brace, because a
/// brace would end the hash tag too early.
enum AudienceStoreKey {
    private static let digestLetterCount = 11
    private static let segmentLetterCount = 2
    private static let alphabet: StaticString = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    static let lowerBoundByteCount = 4
    static let directoryLetter = UInt8(ascii: "d")
    static let pageLetter = UInt8(ascii: "p")
    /// The maximum length of the app in a key, in bytes: the limit of a record's field `app`. The configuration allows
    /// only shorter apps.
    static let appBytesMax = Limits.identifierBytesMax
    /// The maximum length of `{app@DIGEST SEGMENT}`, in bytes.
    static let hashTagBytesMax = appBytesMax + digestLetterCount + segmentLetterCount + 3
    static let bytesMax = hashTagBytesMax + 1 + lowerBoundByteCount

    /// Writes `{app@DIGEST}`, or `{app@DIGEST SEGMENT}` if there is a segment, and returns its length; nil if the app
    /// is empty or too long.
    ///
    /// - Parameter destination: must have room for ``bytesMax``.
    static func write(
        app: UnsafeRawBufferPointer,
        _ audience: AudienceDigest,
        segment: UInt8? = nil,
        to destination: UnsafeMutableRawBufferPointer
    ) -> Int? {
        guard (1...appBytesMax).contains(app.count), destination.count >= bytesMax,
            let base = destination.baseAddress
        else { return nil }
        base.storeBytes(of: UInt8(ascii: "{"), as: UInt8.self)
        UnsafeMutableRawBufferPointer(start: base + 1, count: app.count).copyMemory(from: app)
        var count = 1 + app.count
        base.storeBytes(of: UInt8(ascii: "@"), toByteOffset: count, as: UInt8.self)
        writeLetters(of: audience.value, count: digestLetterCount, to: base + count + 1)
        count += 1 + digestLetterCount
        if let segment {
            writeLetters(of: UInt64(segment), count: segmentLetterCount, to: base + count)
            count += segmentLetterCount
        }
        base.storeBytes(of: UInt8(ascii: "}"), toByteOffset: count, as: UInt8.self)
        return count + 1
    }

    private static func writeLetters(of value: UInt64, count: Int, to destination: UnsafeMutableRawPointer) {
        for index in 0..<count {
            let letter = alphabet.utf8Start[Int(value >> UInt64(6 * index) & 63)]
            destination.storeBytes(of: letter, toByteOffset: index, as: UInt8.self)
        }
    }

    static let pageSuffixBytes = 1 + lowerBoundByteCount

    /// Returns the part of a page's key after the hash tag.
    static func pageSuffix(_ lowerBound: UInt32) -> InlineArray<5, UInt8> {
        [
            pageLetter, UInt8(truncatingIfNeeded: lowerBound), UInt8(truncatingIfNeeded: lowerBound >> 8),
            UInt8(truncatingIfNeeded: lowerBound >> 16), UInt8(truncatingIfNeeded: lowerBound >> 24),
        ]
    }
}
