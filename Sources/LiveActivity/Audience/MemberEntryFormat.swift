import Numbers

/// An entry of a page. It says that a member joined the segment, changed its data, or left.
///
/// Numbers are little-endian.
///
/// | bytes | meaning |
/// | --- | --- |
/// | 1–2 | the length of the entry, including these two bytes |
/// | 3–6 | the member's position |
/// | 7 | the bits of ``Flag``, and the ``IdentifierPacking`` shifted by four |
/// | 8–13 | when the member's token was registered, or when the member left, UNIX milliseconds |
/// | 14 | for an id that is not packed: the number of its bytes less one |
/// | … | the id: a UUID is packed (``PackedUUID``), any other id is stored as it is |
/// | … | the token, two digits in a byte; empty for a member that leaves |
public enum MemberEntryFormat {
    /// The length of the part that all entries have: the bytes 1 to 13.
    public static let fixedPartBytes = 13
    static let positionByteOffset = 2
    static let flagsByteOffset = 6
    static let changedAtMillisecondsByteOffset = 7
    /// The length of the shortest entry: of a member that leaves, with an id of one byte.
    public static let bytesMin = fixedPartBytes + 2
    static let tokenBytesMax = Limits.tokenDigitsMax / 2
    /// The length of the longest entry.
    public static let bytesMax = fixedPartBytes + 1 + Limits.identifierBytesMax + tokenBytesMax
    /// The latest time that fits into an entry. Later times are clamped to this time.
    public static let millisecondsMax: Int64 = (1 << 48) - 1

    public enum Flag {
        public static let leavingBit: UInt8 = 1
        public static let deviceBit: UInt8 = 2
        public static let sandboxBit: UInt8 = 4
        /// Set for an activity whose user allows frequent updates. In a device's entry, the same bit is
        /// ``withoutChannelsBit``.
        public static let frequentUpdatesBit: UInt8 = 8
        /// Set for a device whose activities cannot begin on a broadcast channel. Older releases, which do not know
        /// channels, set it for every device.
        public static let withoutChannelsBit: UInt8 = 8
        /// The bits that hold the raw value of the id's ``IdentifierPacking``, shifted by `identifierPackingShift`.
        static let identifierPackingMask: UInt8 = 0x30
        static let identifierPackingShift: UInt8 = 4
        static let unusedBits: UInt8 = 0xC0
        /// The flags that belong to a member's identity. Two entries are of the same member if these flags, the
        /// positions and the ids are equal.
        static let memberIdentityBits: UInt8 = deviceBit | identifierPackingMask
    }

    /// The form in which an entry has the id of its member: text, or the 16 bytes of a UUID.
    enum IdentifierPacking: UInt8 {
        /// The id is text.
        case unpacked
        /// The raw values of the two UUID cases must equal those of ``PackedUUID/LetterCase``.
        case lowercaseUUID
        case uppercaseUUID
    }

    /// Writes an entry.
    ///
    /// - Parameter destination: has room for ``bytesMax``, even if the entry is shorter.
    /// - Returns: the entry's length. Nil in any of these cases:
    ///   - `destination` has no room.
    ///   - The id is empty or too long.
    ///   - The token is invalid.
    ///   - A member that leaves has a token.
    public static func write(
        _ entry: MemberEntry<UnsafeRawBufferPointer>,
        to destination: UnsafeMutableRawBufferPointer
    ) -> Int? {
        guard destination.count >= bytesMax, let base = destination.baseAddress,
            (1...Limits.identifierBytesMax).contains(entry.identifier.count),
            entry.isLeaving ? entry.token.isEmpty : DeviceToken.isValid(entry.token)
        else { return nil }
        var flags: UInt8 = entry.isLeaving ? Flag.leavingBit : 0
        if entry.kind == .device {
            flags |= entry.supportsChannels ? Flag.deviceBit : Flag.deviceBit | Flag.withoutChannelsBit
        }
        if entry.environment == .sandbox { flags |= Flag.sandboxBit }
        if entry.kind == .activity, entry.allowsFrequentUpdates { flags |= Flag.frequentUpdatesBit }
        var entryByteCount = fixedPartBytes
        if let letterCase = PackedUUID.pack(entry.identifier, to: base + fixedPartBytes) {
            flags |= letterCase.rawValue << Flag.identifierPackingShift
            entryByteCount += PackedUUID.byteCount
        } else {
            base.storeBytes(of: UInt8(entry.identifier.count - 1), toByteOffset: entryByteCount, as: UInt8.self)
            UnsafeMutableRawBufferPointer(start: base + entryByteCount + 1, count: entry.identifier.count)
                .copyMemory(from: entry.identifier)
            entryByteCount += 1 + entry.identifier.count
        }
        for index in stride(from: 0, to: entry.token.count, by: 2) {
            // `DeviceToken.isValid` has checked that the token has only digits, so `digitValue` returns no nil here.
            let high = Hexadecimal.digitValue(entry.token[index]) ?? 0
            let low = Hexadecimal.digitValue(entry.token[index + 1]) ?? 0
            base.storeBytes(of: high << 4 | low, toByteOffset: entryByteCount, as: UInt8.self)
            entryByteCount += 1
        }
        base.storeBytes(of: UInt16(entryByteCount).littleEndian, as: UInt16.self)
        base.storeBytes(of: entry.location.position.littleEndian, toByteOffset: positionByteOffset, as: UInt32.self)
        base.storeBytes(of: flags, toByteOffset: flagsByteOffset, as: UInt8.self)
        let storedChangedAtMilliseconds = UInt64(min(max(0, entry.changedAtMilliseconds), millisecondsMax)).littleEndian
        withUnsafeBytes(of: storedChangedAtMilliseconds) {
            UnsafeMutableRawBufferPointer(start: base + changedAtMillisecondsByteOffset, count: 6)
                .copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[..<6]))
        }
        return entryByteCount
    }
}
