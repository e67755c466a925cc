import Glibc

/// A request's header section. Each field is checked when it arrives. `RequestMemory` has the texts that later checks
/// need; this type has only their lengths.
struct RequestHead {
    /// A set of header fields. Each of these fields may occur only once in a request.
    struct FieldSet: OptionSet {
        let rawValue: UInt16
        static let authorization = FieldSet(rawValue: 1)
        static let pushType = FieldSet(rawValue: 2)
        static let topic = FieldSet(rawValue: 4)
        static let priority = FieldSet(rawValue: 8)
        static let expiration = FieldSet(rawValue: 16)
        static let identifier = FieldSet(rawValue: 32)
        static let collapseIdentifier = FieldSet(rawValue: 64)
        static let channel = FieldSet(rawValue: 128)
        static let requestIdentifier = FieldSet(rawValue: 256)
    }

    enum Path: UInt8 {
        /// The path is none of Apple's paths.
        case unknown
        /// The path of a push to a device, but without a token: `/3/device/` or `/3/device`.
        case deviceWithoutToken
        /// The token in the path is not an even number of hexadecimal digits, or is too long for `RequestMemory`.
        case deviceWithMalformedToken
        /// Sends a push to a device: `/3/device/<token>`.
        case device
        /// Sends a broadcast: `/4/broadcasts/apps/<bundle id>`.
        case broadcast
        /// Creates, reads or deletes a channel: `/1/apps/<bundle id>/channels`.
        case channels
        /// Lists the channels of an app: `/1/apps/<bundle id>/all-channels`.
        case channelList
    }

    enum Method: UInt8 {
        case post, get, delete, other
    }

    /// Apple's limit for `apns-collapse-id`. The response to a longer one is `BadCollapseId`.
    static let collapseIdentifierBytesMax = 64

    var seenFields = FieldSet()
    var hasDuplicateField = false
    var method = Method.other
    var path = Path.unknown
    var authorizationResponse = SimulatedResponse.missingProviderToken
    var hasLiveActivityPushType = false
    var isPriorityValid = true
    var isExpirationValid = true
    var isMessageIdentifierValid = true
    var isCollapseIdentifierValid = true
    var isChannelValid = false
    /// `apns-priority`; 10 if the header is missing, 0 if it is not 1, 5 or 10. Broadcasts may have 1, device
    /// pushes of Live Activities must not.
    var priority: UInt8 = 10
    /// `apns-expiration`, UNIX seconds; -1 if the header is missing or not a number.
    var expirationSeconds: Int64 = -1
    var tokenByteCount = 0
    var topicByteCount = 0
    /// The length of `apns-id`, or of `apns-request-id` in a request about channels; 0 if the request has no valid id.
    var identifierByteCount = 0
    var bundleIdByteCount = 0
    var channelByteCount = 0

    /// Whether the request sends to a channel or manages channels.
    var concernsChannels: Bool { path == .broadcast || path == .channels || path == .channelList }

    /// Checks and keeps one header field. Returns true for the first `authorization` field: the caller must check this
    /// field, because the check needs the connection.
    mutating func addField(
        name: UnsafeRawBufferPointer,
        value: UnsafeRawBufferPointer,
        memory: RequestMemory
    ) -> Bool {
        switch name.count {
        case 5: if isEqual(name, ":path") { setPath(value, memory: memory) }
        case 7:
            if isEqual(name, ":method") {
                setMethod(value)
            } else if isEqual(name, "apns-id"), noteIfFirst(.identifier) {
                isMessageIdentifierValid = Self.isUUID(value)
                if isMessageIdentifierValid {
                    identifierByteCount = memory.write(value, in: RequestMemory.identifierByteRange)
                }
            }
        case 10:
            // A value that is too long for the memory cannot be a topic. It is kept as an empty topic, which is
            // refused.
            if isEqual(name, "apns-topic"), noteIfFirst(.topic) {
                topicByteCount = memory.write(value, in: RequestMemory.topicByteRange)
            }
        case 13:
            if isEqual(name, "authorization") { return noteIfFirst(.authorization) }
            if isEqual(name, "apns-priority"), noteIfFirst(.priority) { setPriority(value) }
        case 14:
            if isEqual(name, "apns-push-type"), noteIfFirst(.pushType) {
                hasLiveActivityPushType = isEqual(value, "liveactivity")
            }
        case 15:
            if isEqual(name, "apns-expiration"), noteIfFirst(.expiration) {
                let seconds = parseUnsignedDecimal(value)
                isExpirationValid = seconds != nil
                expirationSeconds = seconds ?? -1
            } else {
                addChannelField(name: name, value: value, memory: memory)
            }
        case 16:
            if isEqual(name, "apns-collapse-id"), noteIfFirst(.collapseIdentifier) {
                isCollapseIdentifierValid = value.count <= Self.collapseIdentifierBytesMax
            }
        default: break
        }
        return false
    }

    /// Notes that the request has this field. Returns true for the first field with its name. For any further one, sets
    /// `hasDuplicateField` and returns false.
    private mutating func noteIfFirst(_ field: FieldSet) -> Bool {
        guard seenFields.insert(field).inserted else {
            hasDuplicateField = true
            return false
        }
        return true
    }

    private mutating func setPriority(_ value: UnsafeRawBufferPointer) {
        if isEqual(value, "10") {
            priority = 10
        } else if isEqual(value, "5") {
            priority = 5
        } else {
            isPriorityValid = false
            priority = isEqual(value, "1") ? 1 : 0
        }
    }

    private mutating func setMethod(_ value: UnsafeRawBufferPointer) {
        if isEqual(value, "POST") {
            method = .post
        } else if isEqual(value, "GET") {
            method = .get
        } else if isEqual(value, "DELETE") {
            method = .delete
        }
    }

    private mutating func addChannelField(
        name: UnsafeRawBufferPointer,
        value: UnsafeRawBufferPointer,
        memory: RequestMemory
    ) {
        if isEqual(name, "apns-channel-id"), noteIfFirst(.channel) {
            isChannelValid = Self.isChannelIdentifier(value)
            if isChannelValid { channelByteCount = memory.write(value, in: RequestMemory.channelByteRange) }
        } else if isEqual(name, "apns-request-id"), noteIfFirst(.requestIdentifier) {
            isMessageIdentifierValid = Self.isUUID(value)
            if isMessageIdentifierValid {
                identifierByteCount = memory.write(value, in: RequestMemory.identifierByteRange)
            }
        }
    }

    private mutating func setPath(_ value: UnsafeRawBufferPointer, memory: RequestMemory) {
        let prefix: StaticString = "/3/device/"
        let length = prefix.utf8CodeUnitCount
        if isEqual(value, "/3/device") || isEqual(value, prefix) {
            path = .deviceWithoutToken
            return
        }
        guard value.count > length, isEqual(UnsafeRawBufferPointer(rebasing: value[..<length]), prefix) else {
            return setChannelPath(value, memory: memory)
        }
        let digits = UnsafeRawBufferPointer(rebasing: value[length...])
        path = .deviceWithMalformedToken
        guard digits.count % 2 == 0, digits.count / 2 <= RequestMemory.tokenByteRange.count else { return }
        let token = memory[RequestMemory.tokenByteRange]
        let isHexadecimal = hexDigitValues.withUnsafeBufferPointer { values in
            for index in 0..<digits.count / 2 {
                let (high, low) = (values[Int(digits[index * 2])], values[Int(digits[index * 2 + 1])])
                if (high | low) & 0xF0 != 0 { return false }
                token[index] = high << 4 | low
            }
            return true
        }
        guard isHexadecimal else { return }
        tokenByteCount = digits.count / 2
        path = .device
    }

    private mutating func setChannelPath(_ value: UnsafeRawBufferPointer, memory: RequestMemory) {
        let broadcasts: StaticString = "/4/broadcasts/apps/"
        let apps: StaticString = "/1/apps/"
        if let bundle = Self.rest(of: value, after: broadcasts) {
            setBundleId(bundle, path: .broadcast, memory: memory)
        } else if let rest = Self.rest(of: value, after: apps),
            let slash = rest.firstIndex(of: UInt8(ascii: "/"))
        {
            let pathEnd = UnsafeRawBufferPointer(rebasing: rest[slash...])
            let bundle = UnsafeRawBufferPointer(rebasing: rest[..<slash])
            if isEqual(pathEnd, "/channels") { setBundleId(bundle, path: .channels, memory: memory) }
            if isEqual(pathEnd, "/all-channels") { setBundleId(bundle, path: .channelList, memory: memory) }
        }
    }

    private mutating func setBundleId(_ bundle: UnsafeRawBufferPointer, path: Path, memory: RequestMemory) {
        guard !bundle.isEmpty, !bundle.contains(UInt8(ascii: "/")) else { return }
        // A bundle id that is too long for the memory is kept as an empty one, which belongs to no app.
        bundleIdByteCount = memory.write(bundle, in: RequestMemory.bundleByteRange)
        self.path = path
    }

    private static func rest(of value: UnsafeRawBufferPointer, after prefix: StaticString) -> UnsafeRawBufferPointer? {
        let length = prefix.utf8CodeUnitCount
        guard value.count > length, isEqual(UnsafeRawBufferPointer(rebasing: value[..<length]), prefix) else {
            return nil
        }
        return UnsafeRawBufferPointer(rebasing: value[length...])
    }

    /// Whether the value can be a channel id: base64 with padding, not longer than the memory for it.
    private static func isChannelIdentifier(_ value: UnsafeRawBufferPointer) -> Bool {
        guard !value.isEmpty, value.count <= RequestMemory.channelByteRange.count, value.count % 4 == 0 else {
            return false
        }
        var padding = 0
        for byte in value {
            switch byte {
            case UInt8(ascii: "="): padding += 1
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "/"):
                guard padding == 0 else { return false }
            default: return false
            }
        }
        return padding <= 2
    }

    /// Whether the value is a UUID: 8-4-4-4-12 hexadecimal digits. Apple asks for lower case. Upper case is
    /// accepted, because no refusal by APNs is known.
    private static func isUUID(_ value: UnsafeRawBufferPointer) -> Bool {
        guard value.count == 36 else { return false }
        for (index, byte) in value.enumerated() {
            switch index {
            case 8, 13, 18, 23: if byte != UInt8(ascii: "-") { return false }
            default: if hexDigitValues[Int(byte)] > 15 { return false }
            }
        }
        return true
    }
}

/// The value of each byte as a hexadecimal digit; 255 for a byte that is no digit. A look-up in this table is faster
/// than a calculation, and the path of each push has some 160 digits.
private let hexDigitValues: [UInt8] = (0...255).map { hexDigitValue(UInt8($0)) ?? 255 }

/// The memory of one request: its body and the few fields that are kept, at fixed places.
struct RequestMemory {
    /// Has room for the longest body of a broadcast. The longest body of a device push is shorter.
    static let bodyByteRange = 0..<5_120
    static let tokenByteRange = 5_120..<5_376
    static let topicByteRange = 5_376..<5_632
    static let identifierByteRange = 5_632..<5_696
    /// The response's body. Exception: `RequestSlot.managementResponseBody` has a description or list of channels.
    static let responseByteRange = 5_696..<5_824
    static let bundleByteRange = 5_824..<6_080
    static let channelByteRange = 6_080..<6_144
    static let byteCount = 6_144

    let start: UnsafeMutableRawPointer

    subscript(region: Range<Int>) -> UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(start: start + region.lowerBound, count: region.count)
    }

    func prefix(_ count: Int, of region: Range<Int>) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(self[region])[..<count])
    }

    /// Writes a value into a region, or nothing if the value is too long. Returns the number of written bytes.
    func write(_ value: UnsafeRawBufferPointer, in region: Range<Int>) -> Int {
        guard value.count <= region.count else { return 0 }
        self[region].copyMemory(from: value)
        return value.count
    }
}
