import LiveActivity

/// The appends under way. An append adds an entry to a member's page when the member joins or leaves an audience
/// (``EntryAppender``). The memory is allocated once.
struct EntryAppendTable: ~Copyable {
    /// The maximum number of appends under way. A lane sends the appends of an iteration together, so it adds at most
    /// this many entries in one round trip. The table allocates 0.7 MiB for them.
    static let appendsMax = 1_024

    enum Phase: BitwiseCopyable {
        case free
        /// The entry is being added to its page.
        case appending
        /// The page refused the entry, so the lane reads the directory: the list of the segment's pages.
        case readingDirectory
        /// The page is being made, or rearranged so that it accepts the entry.
        case arranging
        /// The entry is in its page, and the append's caller has its reply. But the script `arrange` still rearranges
        /// the page, or renews the page's expiry.
        case arrangingAfterReply
    }

    struct EntryAppend: BitwiseCopyable {
        var tag: UInt64
        var phase: Phase
        var hashTagByteCount: UInt16
        var entryByteCount: UInt16
        var position: UInt32
        var isDevice: Bool
        /// How often this append has read the directory or run the script `arrange`, which replies with the directory.
        /// After too many times, it fails (`EntryAppender.receivedDirectoriesMax`).
        var receivedDirectoryCount: UInt8
        var bounds: PageBounds
    }

    private static let slotBytes = AudienceStoreKey.bytesMax + MemberEntryFormat.bytesMax
    private let slotBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: appendsMax * slotBytes, alignment: 8)
    private let appends = UnsafeMutableBufferPointer<EntryAppend>.allocate(capacity: appendsMax)
    private let freeIndices = UnsafeMutableBufferPointer<UInt16>.allocate(capacity: appendsMax)
    private var freeIndexCount = appendsMax

    init() {
        let bounds = PageBounds(lowerBound: 0, nextLowerBound: 0)
        appends.initialize(
            repeating: EntryAppend(
                tag: 0,
                phase: .free,
                hashTagByteCount: 0,
                entryByteCount: 0,
                position: 0,
                isDevice: false,
                receivedDirectoryCount: 0,
                bounds: bounds
            )
        )
        for index in 0..<Self.appendsMax { freeIndices.initializeElement(at: index, to: UInt16(index)) }
    }

    deinit {
        slotBuffer.deallocate()
        appends.deallocate()
        freeIndices.deallocate()
    }

    subscript(index: UInt16) -> EntryAppend {
        get { appends[Int(index)] }
        set { appends[Int(index)] = newValue }
    }

    enum InsertResult {
        case inserted(index: UInt16)
        case full
        /// A part of the entry is invalid, for example its id is too long.
        case outOfBounds
    }

    /// Adds an append whose entry has not been sent. Copies the hash tag of the segment's keys and the encoded entry
    /// into the table.
    mutating func insert(
        tag: UInt64,
        app: UnsafeRawBufferPointer,
        _ audience: AudienceDigest,
        _ entry: MemberEntry<UnsafeRawBufferPointer>
    ) -> InsertResult {
        guard freeIndexCount > 0 else { return .full }
        let index = freeIndices[freeIndexCount - 1]
        let keyMemory = UnsafeMutableRawBufferPointer(rebasing: slotMemory(index)[..<AudienceStoreKey.bytesMax])
        let entryMemory = UnsafeMutableRawBufferPointer(rebasing: slotMemory(index)[AudienceStoreKey.bytesMax...])
        guard
            let hashTagByteCount = AudienceStoreKey.write(
                app: app,
                audience,
                segment: entry.location.segment,
                to: keyMemory
            ),
            let entryByteCount = MemberEntryFormat.write(entry, to: entryMemory)
        else { return .outOfBounds }
        freeIndexCount -= 1
        appends[Int(index)] = EntryAppend(
            tag: tag,
            phase: .appending,
            hashTagByteCount: UInt16(hashTagByteCount),
            entryByteCount: UInt16(entryByteCount),
            position: entry.location.position,
            isDevice: entry.kind == .device,
            receivedDirectoryCount: 0,
            bounds: PageBounds(lowerBound: 0, nextLowerBound: 0)
        )
        return .inserted(index: index)
    }

    mutating func free(_ index: UInt16) {
        precondition(appends[Int(index)].phase != .free, "an append was freed that does not exist")
        appends[Int(index)].phase = .free
        freeIndices[freeIndexCount] = index
        freeIndexCount += 1
    }

    func hashTag(_ index: UInt16) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: slotMemory(index)[..<Int(appends[Int(index)].hashTagByteCount)])
    }

    func entry(_ index: UInt16) -> UnsafeRawBufferPointer {
        let start = AudienceStoreKey.bytesMax
        return UnsafeRawBufferPointer(
            rebasing: slotMemory(index)[start..<(start + Int(appends[Int(index)].entryByteCount))]
        )
    }

    /// Whether the script `arrange` already runs for the same page, because of another append.
    func isArranging(pageOf index: UInt16) -> Bool {
        let bounds = appends[Int(index)].bounds
        return appends.indices.contains { other in
            guard other != Int(index), appends[other].bounds == bounds else { return false }
            switch appends[other].phase {
            case .arranging, .arrangingAfterReply: return hashTag(UInt16(other)).elementsEqual(hashTag(index))
            case .free, .appending, .readingDirectory: return false
            }
        }
    }

    private func slotMemory(_ index: UInt16) -> UnsafeMutableRawBufferPointer {
        let start = Int(index) * Self.slotBytes
        return UnsafeMutableRawBufferPointer(rebasing: slotBuffer[start..<(start + Self.slotBytes)])
    }
}
