import Numbers

/// A page of a segment as Redis stores it: the members whose positions are between two bounds.
///
/// A page is a log: a header, then entries (``MemberEntryFormat``) in the order of their arrival. Of a member's
/// entries, only the one with the latest time is valid. If several have this time, the last of them is valid. An entry
/// whose time is too far ahead of the clock does not count as the latest (``RegistrationTime``).
///
/// The bytes may be damaged. Any bytes can be read without a trap: reading stops at the first bytes that are not an
/// entry. Reading a page allocates nothing.
public struct MemberPage {
    /// The beginning of a page. Numbers are little-endian.
    ///
    /// | bytes | meaning |
    /// | --- | --- |
    /// | 1 | ``formatVersion`` |
    /// | 2 | the bits of ``Flag`` |
    /// | 3–4 | the capacity: the bytes for which Redis has reserved memory; a page that outgrows it gets more |
    /// | 5–8 | the first position of the page |
    /// | 9–12 | the first position of the next page; 0 for the segment's last page |
    /// | 13–16 | when the page's expiry was last renewed, UNIX seconds |
    public enum Header {
        public static let byteCount = 16
        public static let formatVersion: UInt8 = 1
        public static let lowerBoundByteOffset = 4
        public static let nextLowerBoundByteOffset = 8
    }

    public enum Flag {
        /// The page has, or once had, an entry of a device. After each new entry, Redis then keeps the page at least as
        /// long as it keeps a device's hash.
        public static let holdsDevicesBit: UInt8 = 1
        /// The page takes no more entries until the script `arrange` has shortened or split it.
        public static let fullBit: UInt8 = 2
    }

    /// The maximum number of members of a page: the room that ``members(into:nowMilliseconds:)`` needs.
    public static let membersMax = (AudienceLimits.pageBytesMax - Header.byteCount) / MemberEntryFormat.bytesMin

    public let bytes: UnsafeRawBufferPointer

    /// Nil if the bytes are longer than ``AudienceLimits/pageBytesMax`` or do not begin with a valid header.
    @inlinable
    public init?(_ bytes: UnsafeRawBufferPointer) {
        guard (Header.byteCount...AudienceLimits.pageBytesMax).contains(bytes.count), bytes[0] == Header.formatVersion
        else {
            return nil
        }
        self.bytes = bytes
        guard let nextLowerBound, nextLowerBound <= lowerBound else { return }
        return nil
    }

    /// The first position of the page.
    @inlinable
    public var lowerBound: UInt32 { number(at: Header.lowerBoundByteOffset) }

    /// The first position of the next page; nil: this is the segment's last page.
    @inlinable
    public var nextLowerBound: UInt32? {
        let bound = number(at: Header.nextLowerBoundByteOffset)
        return bound == 0 ? nil : bound
    }

    @inlinable
    public func contains(_ position: UInt32) -> Bool {
        position >= lowerBound && (nextLowerBound.map { position < $0 } ?? true)
    }

    @inlinable
    func number(at offset: Int) -> UInt32 {
        UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }

    // MARK: - Members of the page

    /// Finds the members that have joined and not left, in the order of their positions.
    ///
    /// - Parameters:
    ///   - scratch: has room for ``membersMax``.
    ///   - nowMilliseconds: the time, UNIX milliseconds.
    /// - Returns: the number of members, which are at the beginning of `scratch`. `isWhole` is false in either of these
    ///   cases:
    ///   - An entry is outside the page's bounds, and is left out.
    ///   - Some bytes are not an entry, and reading stops there.
    public func members(
        into scratch: UnsafeMutableBufferPointer<MemberReference>,
        nowMilliseconds: Int64
    ) -> (count: Int, isWhole: Bool) {
        precondition(scratch.count >= Self.membersMax, "there is no room for the members of a page")
        var count = 0
        var isWhole = true
        var offset = Header.byteCount
        while offset < bytes.count {
            guard let member = member(at: offset) else {
                isWhole = false
                break
            }
            if contains(member.position) {
                scratch.initializeElement(at: count, to: MemberReference(position: member.position, offset: offset))
                count += 1
            } else {
                isWhole = false
            }
            offset += member.entryByteCount
        }
        let references = UnsafeMutableBufferPointer(rebasing: scratch[..<count])
        sort(references)
        return (keepValidEntries(references, nowMilliseconds: nowMilliseconds), isWhole)
    }

    /// Returns the entry at a reference. If the page has other bytes than when the reference was made, the result may
    /// be nil or another entry.
    ///
    /// - Parameter reference: from ``members(into:nowMilliseconds:)``.
    @inlinable
    public subscript(reference: MemberReference) -> PageMember? { member(at: reference.offset) }

    /// Reads the entry at an offset; nil if no valid entry begins there.
    @usableFromInline
    func member(at offset: Int) -> PageMember? {
        guard offset + MemberEntryFormat.bytesMin <= bytes.count else { return nil }
        let entryByteCount = Int(UInt16(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt16.self)))
        guard entryByteCount >= MemberEntryFormat.bytesMin, entryByteCount <= MemberEntryFormat.bytesMax,
            offset + entryByteCount <= bytes.count
        else {
            return nil
        }
        return PageMember(UnsafeRawBufferPointer(rebasing: bytes[offset..<(offset + entryByteCount)]))
    }

    /// Sorts with Shell sort and gaps of 2ᵏ − 1, which needs no recursion and no memory. This is fast enough for the
    /// few hundred members of a page.
    private func sort(_ references: UnsafeMutableBufferPointer<MemberReference>) {
        var gap = 1
        while gap * 2 + 1 < references.count { gap = gap * 2 + 1 }
        while gap > 0 {
            for index in gap..<max(gap, references.count) {
                let reference = references[index]
                var insertionIndex = index
                while insertionIndex >= gap && references[insertionIndex - gap].sortKey > reference.sortKey {
                    references[insertionIndex] = references[insertionIndex - gap]
                    insertionIndex -= gap
                }
                references[insertionIndex] = reference
            }
            gap /= 2
        }
    }

    /// Keeps the valid entry of each member: the one with the latest time or, if several have this time, the last of
    /// them. Then removes the members that have left.
    ///
    /// - Parameters:
    ///   - references: sorted by position, and for equal positions by the entry's offset.
    ///   - nowMilliseconds: the time, UNIX milliseconds.
    /// - Returns: the number of references that remain. They are at the beginning of `references`.
    private func keepValidEntries(
        _ references: UnsafeMutableBufferPointer<MemberReference>,
        nowMilliseconds: Int64
    ) -> Int {
        var keptCount = 0
        var nextIndex = 0
        while nextIndex < references.count {
            let position = references[nextIndex].position
            // Compares only the entries at one position. Most positions have a single entry.
            let firstAtPosition = keptCount
            while nextIndex < references.count && references[nextIndex].position == position {
                addOrReplace(
                    references[nextIndex],
                    in: references,
                    from: firstAtPosition,
                    keptCount: &keptCount,
                    nowMilliseconds: nowMilliseconds
                )
                nextIndex += 1
            }
            var presentCount = firstAtPosition
            for index in firstAtPosition..<keptCount {
                guard let member = self[references[index]], !member.isLeaving else { continue }
                references[presentCount] = references[index]
                presentCount += 1
            }
            keptCount = presentCount
        }
        return keptCount
    }

    /// Adds an entry to the kept entries at the same position, or replaces the kept entry of the same member. If the
    /// kept entry has a later time, it stays, and the added entry is left out; but a time too far ahead of the clock is
    /// not later.
    private func addOrReplace(
        _ reference: MemberReference,
        in references: UnsafeMutableBufferPointer<MemberReference>,
        from firstAtPosition: Int,
        keptCount: inout Int,
        nowMilliseconds: Int64
    ) {
        if keptCount > firstAtPosition, let member = self[reference] {
            for index in firstAtPosition..<keptCount {
                guard let earlier = self[references[index]], earlier.isOfSameMember(as: member) else { continue }
                // Known issue (K19): an entry whose time is too far ahead does not count now, but counts again when the
                // clock reaches this time.
                let isOutdated = RegistrationTime.isOlder(
                    member.changedAtMilliseconds,
                    than: earlier.changedAtMilliseconds,
                    nowMilliseconds: nowMilliseconds
                )
                if !isOutdated { references[index] = reference }
                return
            }
        }
        references[keptCount] = reference
        keptCount += 1
    }
}

/// The place of a member's entry in its page. ``sortKey`` orders the references by position, and those with the same
/// position by offset.
public struct MemberReference: Sendable, Equatable, BitwiseCopyable {
    @usableFromInline let sortKey: UInt64

    @inlinable
    init(position: UInt32, offset: Int) { sortKey = UInt64(position) << 32 | UInt64(offset) }

    @inlinable
    public var position: UInt32 { UInt32(truncatingIfNeeded: sortKey >> 32) }
    @inlinable
    public var offset: Int { Int(truncatingIfNeeded: sortKey & 0xFFFF_FFFF) }
}

/// A member's entry in a page. Valid while the page's bytes are valid.
public struct PageMember {
    private let entry: UnsafeRawBufferPointer
    private let flags: UInt8
    private let identifierOffset: Int
    private let tokenOffset: Int

    /// Nil if the entry does not have the form that ``MemberEntryFormat`` writes.
    ///
    /// - Parameter entry: at least ``MemberEntryFormat/bytesMin`` bytes, and exactly as long as its length field says.
    init?(_ entry: UnsafeRawBufferPointer) {
        flags = entry[MemberEntryFormat.flagsByteOffset]
        guard flags & MemberEntryFormat.Flag.unusedBits == 0,
            let packing = MemberEntryFormat.IdentifierPacking(
                rawValue: (flags & MemberEntryFormat.Flag.identifierPackingMask)
                    >> MemberEntryFormat.Flag.identifierPackingShift
            )
        else { return nil }
        self.entry = entry
        if packing == .unpacked {
            identifierOffset = MemberEntryFormat.fixedPartBytes + 1
            tokenOffset = identifierOffset + Int(entry[MemberEntryFormat.fixedPartBytes]) + 1
        } else {
            identifierOffset = MemberEntryFormat.fixedPartBytes
            tokenOffset = identifierOffset + PackedUUID.byteCount
        }
        let tokenBytes = entry.count - tokenOffset
        guard isLeaving ? tokenBytes == 0 : (1...MemberEntryFormat.tokenBytesMax).contains(tokenBytes) else {
            return nil
        }
    }

    /// Whether the entry says that the member has left. Always false for members from
    /// ``MemberPage/members(into:nowMilliseconds:)``.
    public var isLeaving: Bool { flags & MemberEntryFormat.Flag.leavingBit != 0 }
    public var kind: StoreSubjectKind { flags & MemberEntryFormat.Flag.deviceBit == 0 ? .activity : .device }
    public var environment: APNsEnvironment { flags & MemberEntryFormat.Flag.sandboxBit == 0 ? .production : .sandbox }
    /// Whether the user of the activity's phone allows frequent updates. False for a device.
    public var allowsFrequentUpdates: Bool {
        kind == .activity && flags & MemberEntryFormat.Flag.frequentUpdatesBit != 0
    }
    /// Whether the device's activities may begin on a broadcast channel. False for an activity.
    public var supportsChannels: Bool { kind == .device && flags & MemberEntryFormat.Flag.withoutChannelsBit == 0 }

    public var position: UInt32 {
        UInt32(littleEndian: entry.loadUnaligned(fromByteOffset: MemberEntryFormat.positionByteOffset, as: UInt32.self))
    }

    /// When the token was registered, or when the member left, UNIX milliseconds.
    public var changedAtMilliseconds: Int64 {
        // Reads eight bytes at once: the flags, the six bytes of the time, and one byte after the time. Only the time
        // is kept.
        let word = entry.loadUnaligned(
            fromByteOffset: MemberEntryFormat.changedAtMillisecondsByteOffset - 1,
            as: UInt64.self
        )
        return Int64(UInt64(littleEndian: word) >> 8 & UInt64(MemberEntryFormat.millisecondsMax))
    }

    /// The token in binary form: one byte for two hexadecimal digits.
    public var token: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: entry[tokenOffset...]) }

    /// Writes the token's digits in lower case and returns their number.
    ///
    /// - Parameter destination: has room for ``Limits/tokenDigitsMax``.
    @inline(__always)
    public func writeToken(to destination: UnsafeMutableRawBufferPointer) -> Int {
        Hexadecimal.write(token, to: destination)
    }

    /// Writes the id of the activity or device and returns the number of its bytes.
    ///
    /// - Parameter destination: has room for ``Limits/identifierBytesMax``.
    public func writeIdentifier(to destination: UnsafeMutableRawBufferPointer) -> Int {
        precondition(destination.count >= Limits.identifierBytesMax)
        guard let base = destination.baseAddress,
            let letterCase = PackedUUID.LetterCase(
                rawValue: (flags & MemberEntryFormat.Flag.identifierPackingMask)
                    >> MemberEntryFormat.Flag.identifierPackingShift
            )
        else {
            destination.copyMemory(from: identifier)
            return identifier.count
        }
        PackedUUID.unpack(identifier, letterCase, to: base)
        return PackedUUID.textByteCount
    }

    /// The id as the entry has it: text, or the 16 bytes of a UUID.
    private var identifier: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: entry[identifierOffset..<tokenOffset])
    }

    var entryByteCount: Int { entry.count }

    func isOfSameMember(as other: PageMember) -> Bool {
        position == other.position && (flags ^ other.flags) & MemberEntryFormat.Flag.memberIdentityBits == 0
            && identifier.elementsEqual(other.identifier)
    }
}
