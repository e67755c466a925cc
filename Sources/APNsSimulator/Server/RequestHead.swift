import Glibc

/// What the header section of a request says, judged field by field as it arrives. Nothing is kept that a later check does not
/// need; the bytes that are kept lie in the request's own memory (`RequestMemory`).
struct RequestHead {
    /// The fields that may stand only once.
    struct Seen: OptionSet {
        let rawValue: UInt16
        static let authorization = Seen(rawValue: 1)
        static let pushType = Seen(rawValue: 2)
        static let topic = Seen(rawValue: 4)
        static let priority = Seen(rawValue: 8)
        static let expiration = Seen(rawValue: 16)
        static let identifier = Seen(rawValue: 32)
        static let collapseIdentifier = Seen(rawValue: 64)
    }

    enum Path: UInt8 {
        /// Not `/3/device…`.
        case unknown
        case deviceMissing
        /// Not an even number of hexadecimal digits, or far too many of them.
        case deviceMalformed
        case device
    }

    /// `apns-collapse-id` at most.
    static let collapseIdentifierBytesMax = 64

    var seen = Seen()
    var isDuplicated = false
    var isPost = false
    var path = Path.unknown
    var authorization = Reason.missingProviderToken
    var isLiveActivity = false
    var isPriorityValid = true
    var isExpirationValid = true
    var isIdentifierValid = true
    var isCollapseIdentifierValid = true
    /// 10 if left out.
    var priority: UInt8 = 10
    /// UNIX seconds; -1 if left out.
    var expiration: Int64 = -1
    var tokenBytes = 0
    var topicBytes = 0
    var identifierBytes = 0

    /// Notes one field. `authorization` is left to the caller: it is the connection's to judge.
    ///
    /// - Returns: true for `authorization`, on its first occurrence.
    mutating func note(
        name: UnsafeRawBufferPointer,
        value: UnsafeRawBufferPointer,
        memory: RequestMemory
    ) -> Bool {
        switch name.count {
        case 5: if isEqual(name, ":path") { notePath(value, memory: memory) }
        case 7:
            if isEqual(name, ":method") {
                isPost = isEqual(value, "POST")
            } else if isEqual(name, "apns-id"), isFirst(.identifier) {
                isIdentifierValid = Self.isUUID(value)
                if isIdentifierValid { identifierBytes = memory.store(value, in: RequestMemory.identifier) }
            }
        case 10:
            // What is too long for the memory is no topic, and is kept as an empty one.
            if isEqual(name, "apns-topic"), isFirst(.topic) {
                topicBytes = memory.store(value, in: RequestMemory.topic)
            }
        case 13:
            if isEqual(name, "authorization") { return isFirst(.authorization) }
            if isEqual(name, "apns-priority"), isFirst(.priority) { notePriority(value) }
        case 14:
            if isEqual(name, "apns-push-type"), isFirst(.pushType) { isLiveActivity = isEqual(value, "liveactivity") }
        case 15:
            if isEqual(name, "apns-expiration"), isFirst(.expiration) {
                let seconds = unsignedDecimal(value)
                isExpirationValid = seconds != nil
                expiration = seconds ?? -1
            }
        case 16:
            if isEqual(name, "apns-collapse-id"), isFirst(.collapseIdentifier) {
                isCollapseIdentifierValid = value.count <= Self.collapseIdentifierBytesMax
            }
        default: break
        }
        return false
    }

    private mutating func isFirst(_ field: Seen) -> Bool {
        guard seen.insert(field).inserted else {
            isDuplicated = true
            return false
        }
        return true
    }

    private mutating func notePriority(_ value: UnsafeRawBufferPointer) {
        if isEqual(value, "10") {
            priority = 10
        } else if isEqual(value, "5") {
            priority = 5
        } else {
            isPriorityValid = false
        }
    }

    private mutating func notePath(_ value: UnsafeRawBufferPointer, memory: RequestMemory) {
        let prefix: StaticString = "/3/device/"
        let length = prefix.utf8CodeUnitCount
        if isEqual(value, "/3/device") || isEqual(value, prefix) {
            path = .deviceMissing
            return
        }
        guard value.count > length, isEqual(UnsafeRawBufferPointer(rebasing: value[..<length]), prefix) else { return }
        let digits = UnsafeRawBufferPointer(rebasing: value[length...])
        path = .deviceMalformed
        guard digits.count % 2 == 0, digits.count / 2 <= RequestMemory.token.count else { return }
        let token = memory[RequestMemory.token]
        let isHexadecimal = hexDigits.withUnsafeBufferPointer { values in
            for index in 0..<digits.count / 2 {
                let (high, low) = (values[Int(digits[index * 2])], values[Int(digits[index * 2 + 1])])
                if (high | low) & 0xF0 != 0 { return false }
                token[index] = high << 4 | low
            }
            return true
        }
        guard isHexadecimal else { return }
        tokenBytes = digits.count / 2
        path = .device
    }

    /// 8-4-4-4-12 hexadecimal digits. Apple asks for lower case; upper case has not been seen to be refused.
    private static func isUUID(_ value: UnsafeRawBufferPointer) -> Bool {
        guard value.count == 36 else { return false }
        for (index, byte) in value.enumerated() {
            switch index {
            case 8, 13, 18, 23: if byte != UInt8(ascii: "-") { return false }
            default: if hexDigits[Int(byte)] > 15 { return false }
            }
        }
        return true
    }
}

/// The value of each byte as a hexadecimal digit; 255 for others.
private let hexDigits: [UInt8] = (0...255).map { hexDigitValue(UInt8($0)) ?? 255 }

/// The memory of one request: its body and the few fields that are kept, at fixed places.
struct RequestMemory {
    static let body = 0..<4_096
    static let token = 4_096..<4_352
    static let topic = 4_352..<4_608
    static let identifier = 4_608..<4_672
    /// The answer's body.
    static let answer = 4_672..<4_800
    static let byteCount = 4_800

    let start: UnsafeMutableRawPointer

    subscript(region: Range<Int>) -> UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(start: start + region.lowerBound, count: region.count)
    }

    /// The first bytes of a region.
    func prefix(_ count: Int, of region: Range<Int>) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(self[region])[..<count])
    }

    /// Keeps a value, or nothing if it is too long. Gives the number of bytes kept.
    func store(_ value: UnsafeRawBufferPointer, in region: Range<Int>) -> Int {
        guard value.count <= region.count else { return 0 }
        self[region].copyMemory(from: value)
        return value.count
    }
}
