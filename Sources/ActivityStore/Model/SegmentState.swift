import LiveActivity

/// What Redis stores about a segment of an audience, in the model of the scripts `append` and `arrange`.
struct SegmentState: Sendable {
    /// The pages, by their lower bounds.
    private(set) var pages: [UInt32: PageState] = [:]
    /// The directory: the lower bound of each page, in ascending order.
    private(set) var lowerBounds: [UInt32] = []
    private var expiresAtMilliseconds: Int64 = 0
    private let unarrangedPageBytesMax: Int

    init(unarrangedPageBytesMax: Int) { self.unarrangedPageBytesMax = unarrangedPageBytesMax }

    mutating func removeExpired(nowMilliseconds: Int64) {
        pages = pages.filter { $0.value.expiresAtMilliseconds > nowMilliseconds }
        if expiresAtMilliseconds <= nowMilliseconds { lowerBounds = [] }
    }

    /// Adds an entry to the page that has the member's position. Makes the page if it is missing, and rearranges the
    /// page if it has grown too long.
    mutating func append(_ entry: MemberEntry<[UInt8]>, nowMilliseconds: Int64) {
        removeExpired(nowMilliseconds: nowMilliseconds)
        let entry = StoredEntry(entry)
        if lowerBounds.isEmpty {
            lowerBounds = [0]
            pages[0] = PageState(lowerBound: 0, nextLowerBound: 0)
            arrange(pageAt: 0, holdsDevices: entry.isDevice, nowMilliseconds: nowMilliseconds)
        }
        let bound = lowerBounds.last { $0 <= entry.position } ?? 0
        if pages[bound] == nil {
            let next = lowerBounds.first { $0 > bound } ?? 0
            pages[bound] = PageState(lowerBound: bound, nextLowerBound: next)
            arrange(pageAt: bound, holdsDevices: entry.isDevice, nowMilliseconds: nowMilliseconds)
        }
        let result = pages[bound]?
            .append(entry, unarrangedBytesMax: unarrangedPageBytesMax, nowMilliseconds: nowMilliseconds)
        if result == .addedNeedsArranging {
            arrange(pageAt: bound, holdsDevices: entry.isDevice, nowMilliseconds: nowMilliseconds)
        }
    }

    /// Renews the expiry of the page with this lower bound. If the page is longer than ``unarrangedPageBytesMax``,
    /// removes its outdated entries. If it is then still longer than ``PageLimits/unsplitPageBytesMax(of:)``, splits
    /// it. A page with a single position cannot be split.
    private mutating func arrange(pageAt lowerBound: UInt32, holdsDevices: Bool, nowMilliseconds: Int64) {
        guard var page = pages[lowerBound] else { return }
        if holdsDevices { page.flags |= MemberPage.Flag.holdsDevicesBit }
        page.renewExpiry(nowMilliseconds: nowMilliseconds)
        if page.byteCount > unarrangedPageBytesMax {
            page.removeOutdatedEntries(nowMilliseconds: nowMilliseconds)
            let unsplitPageBytesMax = PageLimits.unsplitPageBytesMax(of: unarrangedPageBytesMax)
            if page.byteCount > unsplitPageBytesMax, let splitPosition = page.splitPosition {
                let upperPage = page.split(at: splitPosition)
                pages[splitPosition] = upperPage
                lowerBounds = (lowerBounds + [splitPosition]).sorted()
            }
        }
        pages[lowerBound] = page
        expiresAtMilliseconds = max(expiresAtMilliseconds, page.expiresAtMilliseconds)
    }
}

/// One page: the entries of the members whose positions are at least `lowerBound` and below `nextLowerBound`, stored
/// under one key in Redis.
struct PageState: Sendable {
    let lowerBound: UInt32
    /// The next page's lower bound; 0 if the page reaches to the end of the segment.
    private(set) var nextLowerBound: UInt32
    var flags: UInt8 = 0
    private var entries: [StoredEntry] = []
    private var capacityBytes = PageLimits.capacityBytes(forPageBytes: 0)
    private var renewedAtSeconds: Int64 = 0
    private(set) var expiresAtMilliseconds: Int64 = 0

    init(lowerBound: UInt32, nextLowerBound: UInt32) {
        self.lowerBound = lowerBound
        self.nextLowerBound = nextLowerBound
    }

    var byteCount: Int { entries.reduce(MemberPage.Header.byteCount) { $0 + $1.bytes.count } }

    private var holdsDevices: Bool { flags & MemberPage.Flag.holdsDevicesBit != 0 }

    /// The value that the page's key has on a server.
    var bytes: [UInt8] {
        func encodeNumber(_ value: some FixedWidthInteger) -> [UInt8] {
            withUnsafeBytes(of: value.littleEndian) { Array($0) }
        }
        return [MemberPage.Header.formatVersion, flags] + encodeNumber(UInt16(capacityBytes)) + encodeNumber(lowerBound)
            + encodeNumber(nextLowerBound)
            + encodeNumber(UInt32(renewedAtSeconds)) + entries.flatMap(\.bytes)
    }

    /// Adds an entry. `unarrangedBytesMax` is the length above which the page must be arranged.
    mutating func append(
        _ entry: StoredEntry,
        unarrangedBytesMax: Int,
        nowMilliseconds: Int64
    ) -> EntryAppendResult {
        entries.append(entry)
        let count = byteCount
        if count > unarrangedBytesMax { return .addedNeedsArranging }
        let newCapacityBytes = PageLimits.capacityBytes(forPageBytes: count)
        // Raise the capacity only if the page fills more than half of the new one. The script reserves memory by
        // writing a byte at half of the new capacity, which would make a shorter page longer (append.lua: Memory).
        if count > capacityBytes, count > newCapacityBytes / 2 { capacityBytes = newCapacityBytes }
        let needsRenewal = nowMilliseconds / 1_000 - renewedAtSeconds >= PageLimits.renewalIntervalSeconds
        return needsRenewal || entry.isDevice && !holdsDevices ? .addedNeedsArranging : .added
    }

    mutating func renewExpiry(nowMilliseconds: Int64) {
        renewedAtSeconds = nowMilliseconds / 1_000
        let expiryMilliseconds =
            holdsDevices ? PageLimits.deviceExpiryMilliseconds : PageLimits.activityExpiryMilliseconds
        expiresAtMilliseconds = nowMilliseconds + expiryMilliseconds
    }

    /// Keeps only the latest entry of each member. Removes the latest entry too if it is older than
    /// ``StoredEntry/ageMillisecondsMax``.
    mutating func removeOutdatedEntries(nowMilliseconds: Int64) {
        var newestEntryIndices: [[UInt8]: Int] = [:]
        for (index, entry) in entries.enumerated() {
            if let newestIndex = newestEntryIndices[entry.identity],
                RegistrationTime.isOlder(
                    entry.changedAtMilliseconds,
                    than: entries[newestIndex].changedAtMilliseconds,
                    nowMilliseconds: nowMilliseconds
                )
            {
                continue
            }
            newestEntryIndices[entry.identity] = index
        }
        entries = entries.indices.filter { newestEntryIndices[entries[$0].identity] == $0 }.map { entries[$0] }
            .filter { nowMilliseconds - $0.changedAtMilliseconds <= $0.ageMillisecondsMax }
        // Like the script, put the entries of the lower half first. Within each half, the order does not change.
        if let splitPosition {
            entries = entries.filter { $0.position < splitPosition } + entries.filter { $0.position >= splitPosition }
        }
        capacityBytes = PageLimits.capacityBytes(forPageBytes: byteCount)
    }

    /// The position at which the page is split; nil if the page has only one position.
    var splitPosition: UInt32? {
        let end = nextLowerBound == 0 ? MemberLocation.positionsPerSegment : UInt64(nextLowerBound)
        let positionCount = end - UInt64(lowerBound)
        return positionCount > 1 ? UInt32(UInt64(lowerBound) + positionCount / 2) : nil
    }

    /// Removes the entries of all positions from `middle` on, and returns a page with these entries.
    mutating func split(at middle: UInt32) -> PageState {
        var upperPage = PageState(lowerBound: middle, nextLowerBound: nextLowerBound)
        upperPage.flags = flags
        upperPage.renewedAtSeconds = renewedAtSeconds
        upperPage.expiresAtMilliseconds = expiresAtMilliseconds
        upperPage.entries = entries.filter { $0.position >= middle }
        upperPage.capacityBytes = PageLimits.capacityBytes(forPageBytes: upperPage.byteCount)
        nextLowerBound = middle
        entries.removeAll { $0.position >= middle }
        capacityBytes = PageLimits.capacityBytes(forPageBytes: byteCount)
        return upperPage
    }
}

/// An entry as a page stores it, and the values in it that the model reads.
struct StoredEntry: Sendable {
    let bytes: [UInt8]
    let position: UInt32
    let changedAtMilliseconds: Int64
    let isLeaving: Bool
    let isDevice: Bool
    /// The member's kind and id. All entries of a member have the same identity.
    let identity: [UInt8]

    init(_ entry: MemberEntry<[UInt8]>) {
        var buffer = [UInt8](repeating: 0, count: MemberEntryFormat.bytesMax)
        let byteCount = buffer.withUnsafeMutableBytes { buffer in
            entry.identifier.withUnsafeBytes { identifier in
                entry.token.withUnsafeBytes { token in
                    MemberEntryFormat.write(entry.replacingBytes(identifier: identifier, token: token), to: buffer)
                }
            }
        }
        guard let byteCount else { preconditionFailure("an entry exceeds its bounds") }
        bytes = Array(buffer[..<byteCount])
        position = entry.location.position
        changedAtMilliseconds = min(max(0, entry.changedAtMilliseconds), MemberEntryFormat.millisecondsMax)
        isLeaving = entry.isLeaving
        isDevice = entry.kind == .device
        identity = [isDevice ? 1 : 0] + entry.identifier
    }

    /// The age above which an entry is removed from a page that is too long, counted from `changedAtMilliseconds`. Then
    /// a departure has replaced all older entries, or the member's token is dead.
    var ageMillisecondsMax: Int64 {
        if isLeaving { return PageLimits.leavingEntryAgeMillisecondsMax }
        return isDevice ? StoreLimits.deviceExpiryMilliseconds : PageLimits.activityEntryAgeMillisecondsMax
    }
}
