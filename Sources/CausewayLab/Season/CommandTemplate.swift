import Numbers

/// A record that is built once, and sent to every follower of a match (a phone with a number) or to their audience.
/// Only the follower's number and the timestamp change. Both have a fixed width, so they are overwritten in place. A
/// record for an audience has no number.
struct CommandTemplate {
    /// The number of digits of a follower's number.
    static let followerDigitCount = 4
    static let followersMax = 9_999
    /// The number of digits of a timestamp. UNIX seconds have ten digits until the year 2286.
    static let timestampDigitCount = 10

    /// The placeholders in the record for the parts that are overwritten later. The template searches for them, so the
    /// record must contain exactly these bytes.
    struct Placeholders {
        let activity: String
        let device: String?
        /// The command's own id; nil if the command has no id.
        let identifier: String?
        var timestamp: [UInt8] { Self.timestamp }

        fileprivate static let timestamp = [UInt8](
            repeating: UInt8(ascii: "9"),
            count: CommandTemplate.timestampDigitCount
        )

        fileprivate init(activityPrefix: String, devicePrefix: String?, identifierPrefix: String?) {
            let digits = String(repeating: "0", count: CommandTemplate.followerDigitCount)
            activity = activityPrefix + digits
            device = devicePrefix.map { $0 + digits }
            identifier = identifierPrefix.map { $0 + digits }
        }
    }

    private var bytes: [UInt8]
    private let keyRange: Range<Int>
    private let followerOffsets: [Int]
    private let timestampOffset: Int

    /// - Parameters:
    ///   - activityPrefix: the beginning of the activities' ids, before the follower's number. No prefix may contain a
    ///     character that JSON escapes.
    ///   - record: writes the record with the given placeholders.
    init(
        activityPrefix: String,
        devicePrefix: String? = nil,
        identifierPrefix: String? = nil,
        record: (_ placeholders: Placeholders) -> [UInt8]
    ) {
        let placeholders = Placeholders(
            activityPrefix: activityPrefix,
            devicePrefix: devicePrefix,
            identifierPrefix: identifierPrefix
        )
        let texts = [placeholders.activity, placeholders.device, placeholders.identifier].compactMap(\.self)
        self.init(record: record(placeholders), key: placeholders.activity, numberedTexts: texts)
    }

    /// - Parameters:
    ///   - audience: the audience's id. It must contain no character that JSON escapes.
    ///   - record: writes the record with the audience and the given timestamp.
    init(audience: String, record: (_ timestamp: [UInt8]) -> [UInt8]) {
        self.init(record: record(Placeholders.timestamp), key: audience, numberedTexts: [])
    }

    /// - Parameter numberedTexts: the ids in the record that end with the follower's number.
    private init(record: [UInt8], key: String, numberedTexts: [String]) {
        func offsets(ofJSONString text: String) -> [Int] { Self.offsets(of: Array("\"\(text)\"".utf8), in: record) }
        let found = numberedTexts.map { (length: $0.utf8.count, offsets: offsets(ofJSONString: $0)) }
        let (keys, timestamps) = (offsets(ofJSONString: key), Self.offsets(of: Placeholders.timestamp, in: record))
        precondition(
            !keys.isEmpty && timestamps.count == 1 && found.allSatisfy { !$0.offsets.isEmpty },
            "the record holds its placeholders"
        )
        bytes = record
        keyRange = keys[0] + 1..<keys[0] + 1 + key.utf8.count
        followerOffsets = found.flatMap { length, offsets in offsets.map { $0 + 1 + length - Self.followerDigitCount } }
        timestampOffset = timestamps[0]
    }

    mutating func setTimestamp(seconds: Int64) {
        write(seconds, digitCount: Self.timestampDigitCount, at: timestampOffset)
    }

    /// Sets the follower's number. Has no effect on a record for an audience.
    ///
    /// - Parameter follower: the number, 1 to `followersMax`.
    mutating func setFollowerNumber(_ follower: Int) {
        precondition((1...Self.followersMax).contains(follower), "followers have four digits")
        for offset in followerOffsets { write(Int64(follower), digitCount: Self.followerDigitCount, at: offset) }
    }

    /// Passes the key and the value of the record to `body`. The key is the id of the activity or audience. Key and
    /// value are valid only during the call.
    func withRecord<Value>(_ body: (_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Value) -> Value {
        bytes.withUnsafeBytes { value in
            body(UnsafeRawBufferPointer(rebasing: value[keyRange]), value)
        }
    }

    private mutating func write(_ number: Int64, digitCount: Int, at offset: Int) {
        precondition(number >= 0 && Decimal.digitCount(of: UInt64(number)) <= digitCount, "the number fits its place")
        bytes.withUnsafeMutableBytes { bytes in
            let target = UnsafeMutableRawBufferPointer(rebasing: bytes[offset..<offset + digitCount])
            guard let start = target.baseAddress else { return }
            Decimal.write(UInt64(number), digitCount: digitCount, to: start)
        }
    }

    private static func offsets(of needle: [UInt8], in haystack: [UInt8]) -> [Int] {
        guard haystack.count >= needle.count, let first = needle.first else { return [] }
        return (0...haystack.count - needle.count)
            .filter { offset in
                haystack[offset] == first && haystack[offset...].starts(with: needle)
            }
    }
}
