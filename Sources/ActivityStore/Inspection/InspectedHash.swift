public import LiveActivity
import Numbers
import Redis

/// Says that Redis has something in another format than Causeway writes: a field of a hash, or a part of a string.
public struct InspectionError: Error, Equatable, CustomStringConvertible {
    /// The name of the field or part.
    public var partName: String

    public var description: String { "the field '\(partName)' holds a value that Causeway does not write" }
}

/// A token that was read from Redis. Tokens are secrets, so never log one.
public struct InspectedToken: Sendable, Equatable {
    /// The token as it was registered.
    public var token: [UInt8]
    public var environment: APNsEnvironment

    init(token: [UInt8], environment: APNsEnvironment) {
        self.token = token
        self.environment = environment
    }

    /// Reads an activity's token; nil if there is none. `form` is the number of the token's ``TokenForm``, or 0.
    init?(form: UInt8, _ part: InspectedField) throws(InspectionError) {
        let stored = part.unreadBytes
        if form == 0 && stored.isEmpty { return nil }
        var buffer = [UInt8](repeating: 0, count: StoredDeviceToken.bytesMax * 2)
        let decodedToken = buffer.withUnsafeMutableBytes { buffer in
            stored.withUnsafeBytes { stored in
                buffer.baseAddress.flatMap { start in
                    TokenForm(rawValue: form).flatMap { StoredDeviceToken.decode($0, stored, to: start) }
                }
            }
        }
        guard let decodedToken else { throw part.error }
        self.init(token: Array(buffer[..<decodedToken.count]), environment: decodedToken.environment)
    }
}

/// What is left in a bucket. One draw takes a push of priority 10 (from an activity's bucket), a command of priority 10
/// (from an audience's), or a start (from a device's).
public struct InspectedBudget: Sendable, Equatable {
    /// How many draws are possible now, including those from the reserve.
    public let remainingDrawCount: Int
    public let bucket: Policy.Bucket
    /// When the bucket will be full; nil if it is full.
    public let fullAtMilliseconds: Int64?

    init(_ bucket: Policy.Bucket, fullAtMilliseconds: Int64, nowMilliseconds: Int64) {
        self.bucket = bucket
        // The subtraction cannot overflow, because neither time is negative.
        let timeToFullMilliseconds = max(0, fullAtMilliseconds &- nowMilliseconds)
        let intervalMilliseconds = bucket.intervalMilliseconds
        let missingDrawCount =
            timeToFullMilliseconds / intervalMilliseconds
            &+ (timeToFullMilliseconds % intervalMilliseconds == 0 ? 0 : 1)
        remainingDrawCount = max(0, bucket.pushes &- Int(clamping: missingDrawCount))
        self.fullAtMilliseconds = timeToFullMilliseconds > 0 ? fullAtMilliseconds : nil
    }
}

/// The fields of a hash by name, except fields with an empty value.
struct InspectedHash {
    private let fields: [String: [UInt8]]

    init(_ fields: [(field: [UInt8], value: [UInt8])]) {
        var fieldsByName: [String: [UInt8]] = [:]
        for (field, value) in fields where !value.isEmpty {
            fieldsByName[String(decoding: field, as: UTF8.self)] = value
        }
        self.fields = fieldsByName
    }

    func field(_ name: String) -> InspectedField? {
        fields[name].map { InspectedField(name: name, bytes: $0[...]) }
    }

    /// Reads a device's token for an attributes type, and when it was registered. The field `t` has this time and the
    /// first bytes of the token, the field `u` the rest of a long token. If the token was unregistered or retired,
    /// there is only the time.
    func readToken(
        ofAttributesType attributesType: String
    ) throws(InspectionError) -> (registeredAtMilliseconds: Int64?, token: InspectedToken?) {
        guard var timeAndToken = field("t:\(attributesType)") else { return (nil, nil) }
        let registeredAtMilliseconds = try timeAndToken.readDecimalMilliseconds()
        let stored = timeAndToken.unreadBytes + (fields["u:\(attributesType)"] ?? [])
        if timeAndToken.unreadBytes.isEmpty { return (registeredAtMilliseconds, nil) }
        var buffer = [UInt8](repeating: 0, count: StoredDeviceToken.bytesMax * 2)
        let decodedToken = buffer.withUnsafeMutableBytes { buffer in
            stored.withUnsafeBytes { stored in buffer.baseAddress.flatMap { StoredDeviceToken.decode(stored, to: $0) } }
        }
        guard let decodedToken else { throw timeAndToken.error }
        return (
            registeredAtMilliseconds,
            InspectedToken(token: Array(buffer[..<decodedToken.count]), environment: decodedToken.environment)
        )
    }

    /// Returns the attributes types of a device's hash. The name of a field of one type ends with a colon and the type.
    func attributesTypes() -> [String] {
        Set(fields.keys.compactMap { name in name.firstIndex(of: ":").map { String(name[name.index(after: $0)...]) } })
            .sorted()
    }
}

/// Reads a field of a hash, or another value in Redis, part by part from the beginning.
struct InspectedField {
    let name: String
    private var bytes: ArraySlice<UInt8>

    init(name: String, bytes: ArraySlice<UInt8>) {
        self.name = name
        self.bytes = bytes
    }

    var isEmpty: Bool { bytes.isEmpty }
    var unreadBytes: [UInt8] { Array(bytes) }
    var error: InspectionError { InspectionError(partName: name) }

    /// Returns the unread bytes as a field with another name, which later errors report.
    func renamed(_ name: String) -> InspectedField { InspectedField(name: name, bytes: bytes) }

    /// Reads the next `count` bytes as a part with this name; throws an error if fewer bytes are left.
    mutating func readPart(_ name: String, count: Int) throws(InspectionError) -> InspectedField {
        let part = InspectedField(name: name, bytes: bytes.prefix(count))
        guard part.bytes.count == count else { throw part.error }
        bytes = bytes.dropFirst(count)
        return part
    }

    mutating func readByte() throws(InspectionError) -> UInt8 {
        guard let byte = bytes.popFirst() else { throw error }
        return byte
    }

    mutating func readDecimal(digits: Int) throws(InspectionError) -> UInt64 {
        let text = bytes.prefix(digits)
        bytes = bytes.dropFirst(digits)
        guard text.count == digits, let number = text.withUnsafeBytes({ Decimal.parse($0) }) else { throw error }
        return number
    }

    /// Reads a little-endian number of this many bytes.
    mutating func readNumber(byteCount: Int) throws(InspectionError) -> UInt64 {
        let number = bytes.prefix(byteCount)
        bytes = bytes.dropFirst(byteCount)
        guard number.count == byteCount else { throw error }
        return LittleEndian.read(number)
    }

    mutating func readBinaryMilliseconds() throws(InspectionError) -> Int64 {
        Int64(clamping: try readNumber(byteCount: StoredActivity.millisecondsBytes))
    }

    mutating func readBinarySeconds() throws(InspectionError) -> Int64 {
        let seconds = Int64(try readNumber(byteCount: StoredActivity.secondsBytes))
        guard seconds <= Limits.timestampMax else { throw error }
        return seconds
    }

    mutating func readDecimalMilliseconds() throws(InspectionError) -> Int64 {
        Int64(clamping: try readDecimal(digits: StoredTime.digitCount))
    }

    /// Reads a version in the binary form (``StoredVersion``). ``readDecimalVersion()`` reads a version in digits.
    mutating func readVersion() throws(InspectionError) -> Version {
        let timestamp = try readBinarySeconds()
        return Version(timestamp: timestamp, sequence: try readNumber(byteCount: 8))
    }

    mutating func readDecimalVersion() throws(InspectionError) -> Version {
        let timestamp = Int64(try readDecimal(digits: StoredVersion.timestampDigitCount))
        return Version(timestamp: timestamp, sequence: try readDecimal(digits: Decimal.digitsMax))
    }
}
