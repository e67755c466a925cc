import Numbers

/// A page of a segment as the store keeps it: the members whose positions are between two bounds.
///
/// It is a log: a header and then entries (``StoredMember``) in the order in which they came. Of a member's entries the one with the latest
/// time counts, of equal ones the last.
///
/// The bytes come from outside the process, so nothing is taken for granted: any bytes make some members, or none. Nothing is allocated.
public struct MemberPage {
    /// Numbers are little-endian.
    ///
    /// | bytes | meaning |
    /// | --- | --- |
    /// | 1 | ``format`` |
    /// | 2 | the bits of ``Flag`` |
    /// | 3–4 | how many bytes the page may have before the store makes room for more |
    /// | 5–8 | the lower bound |
    /// | 9–12 | the next page's lower bound; 0: the page reaches to the segment's end |
    /// | 13–16 | when its expiry was last renewed, UNIX seconds |
    public enum Header {
        public static let bytes = 16
        public static let format: UInt8 = 1
        public static let capacity = 2
        public static let lowerBound = 4
        public static let nextBound = 8
        public static let renewedAt = 12
    }

    public enum Flag {
        /// Devices have joined, so that the page is kept for as long as they are.
        public static let holdsDevices: UInt8 = 1
        /// The page takes no more entries until it has been rearranged.
        public static let isFull: UInt8 = 2
    }

    /// The most members of a page, and so the room that ``members(into:)`` needs.
    public static let membersMax = (AudienceLimits.pageBytes - Header.bytes) / StoredMember.bytesLeast

    public let bytes: UnsafeRawBufferPointer

    /// Nil if the bytes are longer than ``AudienceLimits/pageBytes``, or do not begin with a page's header.
    @inlinable
    public init?(_ bytes: UnsafeRawBufferPointer) {
        guard (Header.bytes...AudienceLimits.pageBytes).contains(bytes.count), bytes[0] == Header.format else {
            return nil
        }
        self.bytes = bytes
        guard let nextBound, nextBound <= lowerBound else { return }
        return nil
    }

    /// The first position of the page.
    @inlinable
    public var lowerBound: UInt32 { number(at: Header.lowerBound) }

    /// The first position of the page after this one; nil: this is the segment's last.
    @inlinable
    public var nextBound: UInt32? {
        let bound = number(at: Header.nextBound)
        return bound == 0 ? nil : bound
    }

    @inlinable
    public func contains(_ position: UInt32) -> Bool {
        position >= lowerBound && (nextBound.map { position < $0 } ?? true)
    }

    @inlinable
    func number(at offset: Int) -> UInt32 {
        UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }

    // MARK: - Members

    /// Finds the members, in the order of their positions.
    ///
    /// - Parameter scratch: has room for ``membersMax``.
    /// - Returns: how many there are, at the beginning of `scratch`; and whether all bytes were read as entries within the bounds. Behind bytes
    ///   that are none, nothing is read.
    public func members(into scratch: UnsafeMutableBufferPointer<MemberReference>) -> (count: Int, isWhole: Bool) {
        precondition(scratch.count >= Self.membersMax, "room for the members of any page")
        var count = 0
        var isWhole = true
        var offset = Header.bytes
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
            offset += member.entryBytes
        }
        sort(UnsafeMutableBufferPointer(rebasing: scratch[..<count]))
        return (resolve(UnsafeMutableBufferPointer(rebasing: scratch[..<count])), isWhole)
    }

    /// - Parameter reference: from ``members(into:)``, of a page of the same bytes; nil if the bytes have changed since.
    @inlinable
    public subscript(reference: MemberReference) -> PageMember? { member(at: reference.offset) }

    /// The entry at an offset; nil if there is none, or the bytes are none.
    @usableFromInline
    func member(at offset: Int) -> PageMember? {
        guard offset + StoredMember.bytesLeast <= bytes.count else { return nil }
        let count = Int(UInt16(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt16.self)))
        guard count >= StoredMember.bytesLeast, count <= StoredMember.bytesMax, offset + count <= bytes.count else {
            return nil
        }
        return PageMember(UnsafeRawBufferPointer(rebasing: bytes[offset..<(offset + count)]))
    }

    /// By Shell's method with gaps of 2ᵏ − 1: no recursion, no memory, and of the few hundred members of a page fast enough.
    private func sort(_ references: UnsafeMutableBufferPointer<MemberReference>) {
        var gap = 1
        while gap * 2 + 1 < references.count { gap = gap * 2 + 1 }
        while gap > 0 {
            for index in gap..<max(gap, references.count) {
                let reference = references[index]
                var place = index
                while place >= gap && references[place - gap].value > reference.value {
                    references[place] = references[place - gap]
                    place -= gap
                }
                references[place] = reference
            }
            gap /= 2
        }
    }

    /// Leaves of each member the entry that counts, and of members that have left none.
    ///
    /// - Parameter references: in the order of their positions, of equal ones in that of their entries.
    /// - Returns: how many are left, at the beginning.
    private func resolve(_ references: UnsafeMutableBufferPointer<MemberReference>) -> Int {
        var count = 0
        var next = 0
        while next < references.count {
            let position = references[next].position
            // Mostly one member has a position, with one entry.
            let first = count
            while next < references.count && references[next].position == position {
                place(references[next], in: references, from: first, count: &count)
                next += 1
            }
            var kept = first
            for index in first..<count {
                guard let member = self[references[index]], !member.isLeaving else { continue }
                references[kept] = references[index]
                kept += 1
            }
            count = kept
        }
        return count
    }

    private func place(
        _ reference: MemberReference,
        in references: UnsafeMutableBufferPointer<MemberReference>,
        from first: Int,
        count: inout Int
    ) {
        if count > first, let member = self[reference] {
            for index in first..<count {
                guard let other = self[references[index]], other.isSame(as: member) else { continue }
                if member.atMilliseconds >= other.atMilliseconds { references[index] = reference }
                return
            }
        }
        references[count] = reference
        count += 1
    }
}

/// Where a member's entry is in its page. References sort by the members' positions.
public struct MemberReference: Sendable, Equatable, BitwiseCopyable {
    @usableFromInline let value: UInt64

    @inlinable
    init(position: UInt32, offset: Int) { value = UInt64(position) << 32 | UInt64(offset) }

    @inlinable
    public var position: UInt32 { UInt32(truncatingIfNeeded: value >> 32) }
    @inlinable
    public var offset: Int { Int(truncatingIfNeeded: value & 0xFFFF_FFFF) }
}

/// A member as it stands in its page: valid for as long as the page's bytes.
public struct PageMember {
    private let entry: UnsafeRawBufferPointer
    private let flags: UInt8
    private let identifierAt: Int
    private let tokenAt: Int

    /// - Parameter entry: at least ``StoredMember/bytesLeast``, exactly as long as it says. Nil if it is not what ``StoredMember`` writes.
    init?(_ entry: UnsafeRawBufferPointer) {
        flags = entry[StoredMember.flags]
        guard flags & StoredMember.Flag.unused == 0,
            let form = StoredMember.IdentifierForm(
                rawValue: (flags & StoredMember.Flag.formMask) >> StoredMember.Flag.formShift
            )
        else { return nil }
        self.entry = entry
        if form == .plain {
            identifierAt = StoredMember.fixedBytes + 1
            tokenAt = identifierAt + Int(entry[StoredMember.fixedBytes]) + 1
        } else {
            identifierAt = StoredMember.fixedBytes
            tokenAt = identifierAt + PackedUUID.bytes
        }
        let tokenBytes = entry.count - tokenAt
        guard isLeaving ? tokenBytes == 0 : (1...StoredMember.tokenBytesMax).contains(tokenBytes) else { return nil }
    }

    /// Of a member that ``MemberPage/members(into:)`` found, false.
    public var isLeaving: Bool { flags & StoredMember.Flag.leaving != 0 }
    public var kind: StoreSubjectKind { flags & StoredMember.Flag.device == 0 ? .activity : .device }
    public var environment: DeviceEnvironment { flags & StoredMember.Flag.sandbox == 0 ? .production : .sandbox }
    /// Of an activity; of a device false.
    public var frequentUpdates: Bool { kind == .activity && flags & StoredMember.Flag.frequentUpdates != 0 }
    /// Of a device whose activities may begin on a broadcast channel; of an activity false.
    public var takesChannels: Bool { kind == .device && flags & StoredMember.Flag.withoutChannels == 0 }

    public var position: UInt32 {
        UInt32(littleEndian: entry.loadUnaligned(fromByteOffset: StoredMember.position, as: UInt32.self))
    }

    /// When the token was registered, UNIX milliseconds.
    public var atMilliseconds: Int64 {
        // The byte before the time is the flags', and eight bytes are there.
        let word = entry.loadUnaligned(fromByteOffset: StoredMember.atMilliseconds - 1, as: UInt64.self)
        return Int64(UInt64(littleEndian: word) >> 8 & UInt64(StoredMember.millisecondsMax))
    }

    /// The token's bytes, of which each is two hexadecimal digits.
    public var token: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: entry[tokenAt...]) }

    /// Writes the token's digits, in lower case, and returns how many they are.
    ///
    /// - Parameter destination: has room for ``Limits/tokenDigitsMost``.
    @inline(__always)
    public func writeToken(to destination: UnsafeMutableRawBufferPointer) -> Int {
        Hexadecimal.write(token, to: destination)
    }

    /// Writes the id of the activity or the device, and returns the count of its bytes.
    ///
    /// - Parameter destination: has room for ``Limits/identifierBytes``.
    public func writeIdentifier(to destination: UnsafeMutableRawBufferPointer) -> Int {
        precondition(destination.count >= Limits.identifierBytes)
        guard let base = destination.baseAddress,
            let letters = PackedUUID.Letters(
                rawValue: (flags & StoredMember.Flag.formMask) >> StoredMember.Flag.formShift
            )
        else {
            destination.copyMemory(from: identifier)
            return identifier.count
        }
        PackedUUID.unpack(identifier, letters, to: base)
        return PackedUUID.digits
    }

    /// The id as it stands in the entry.
    private var identifier: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: entry[identifierAt..<tokenAt]) }

    var entryBytes: Int { entry.count }

    /// Both are entries of one member.
    func isSame(as other: PageMember) -> Bool {
        position == other.position && (flags ^ other.flags) & StoredMember.Flag.identity == 0
            && identifier.elementsEqual(other.identifier)
    }
}
