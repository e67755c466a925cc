import Delivery
import LiveActivity

/// Reads pages before the round needs their members.
///
/// A page says where the next page of its segment begins. So the round reads a segment's directory (the lower bounds of
/// its pages) only in two cases:
/// - It needs a position in the middle of the segment, such as a parked member's.
/// - The page that it requested does not exist, has been split, or is damaged.
extension Audiences {
    /// A round reads ahead while it has fewer pages than this, including those that are being read. Single parked
    /// members are read beyond this limit.
    private static var pagesPerRoundMax: UInt16 { 32 }
    /// The maximum number of segments that one round reads at a time.
    private static var segmentsAheadMax: UInt64 { 24 }
    /// How often the core reads a segment's directory for one page. If the page is still not found, directory and pages
    /// contradict each other. The round then skips the positions up to the next page, because it would otherwise never
    /// end.
    private static var directoryReadsMax: UInt8 { 4 }

    /// Requests as many pages as there is room for.
    ///
    /// - Parameter isFirstInQueue: whether the round has waited for a page longer than all others of its app. It may
    ///   then take one page although other rounds wait.
    mutating func prefetchPages(of round: RoundIndex, isFirstInQueue: Bool = false) {
        guard rounds[round].phase == .running, rounds[round].versions.newest != .null else { return }
        let end = readingEndPosition(of: round)
        var isFirstInQueue = isFirstInQueue
        while rounds[round].pages.count < Self.pagesPerRoundMax {
            let precedingPage = pageWithUnrequestedNextPage(of: round, end: end)
            guard precedingPage != nil || mayReadNextSegment(round, end: end) else { return }
            guard isFirstInQueue ? hasFreePage(of: round) : mayTakePage(for: round) else {
                return enqueueRoundAwaitingPage(round)
            }
            isFirstInQueue = false
            if let precedingPage {
                addFollowingPage(precedingPage, of: round)
            } else {
                addFirstPageOfSegment(of: round)
            }
        }
    }

    private func pageWithUnrequestedNextPage(of round: RoundIndex, end: UInt64) -> PageIndex? {
        var page = rounds[round].pages.first
        while page != .null {
            if pages[page].phase == .ready, pages[page].hasUnrequestedNextPage {
                return pages[page].endPosition < end ? page : nil
            }
            page = pages[page].nextPage
        }
        return nil
    }

    /// Whether the segment continues after this page, but its next page was not requested yet. The members of that page
    /// are then missing from the round's list of pages.
    func awaitsNextPage(_ page: PageIndex, end: UInt64) -> Bool {
        pages[page].hasUnrequestedNextPage && pages[page].endPosition < end
    }

    /// Whether the round may read the next segment. It reads at most `segmentsAheadMax` segments at a time. It must not
    /// read a segment whose members of the previous lap are still under way.
    private func mayReadNextSegment(_ round: RoundIndex, end: UInt64) -> Bool {
        let slot = rounds[round]
        guard slot.progress.readPosition < end else { return false }
        guard slot.pages.first != .null else { return true }
        let segmentPositions = MemberLocation.positionsPerSegment
        let segmentsAhead =
            slot.progress.readPosition / segmentPositions &- pages[slot.pages.first].startPosition / segmentPositions
        return segmentsAhead < min(UInt64(slot.range.segmentCount), Self.segmentsAheadMax)
    }

    func mayTakePage(for round: RoundIndex) -> Bool {
        guard hasFreePage(of: round) else { return false }
        // A round with pages lets the waiting rounds take the free page first.
        return appQueues[Int(rounds[round].appIndex)].firstRoundAwaitingPage == .null
            || rounds[round].pages.first == .null
    }

    func hasFreePage(of round: RoundIndex) -> Bool {
        let queues = appQueues[Int(rounds[round].appIndex)]
        return queues.pageCount < configuration.pagesPerAppMax && !pages.isFull
            && queues.pageBytes + rounds[round].pages.expectedBytes <= configuration.pageBytesPerAppMax
    }

    private mutating func addFirstPageOfSegment(of round: RoundIndex) {
        let start = rounds[round].progress.readPosition
        let page = addPage(round, start: start)
        let nextSegment = start / MemberLocation.positionsPerSegment &+ 1
        rounds[round].progress.readPosition = nextSegment &* MemberLocation.positionsPerSegment
        let last = rounds[round].pages.last
        if last == .null { rounds[round].pages.first = page } else { pages[last].nextPage = page }
        rounds[round].pages.last = page
    }

    private mutating func addFollowingPage(_ previousPage: PageIndex, of round: RoundIndex) {
        pages[previousPage].hasUnrequestedNextPage = false
        let page = addPage(round, start: pages[previousPage].endPosition, isLowerBound: true)
        pages[page].nextPage = pages[previousPage].nextPage
        pages[previousPage].nextPage = page
        if rounds[round].pages.last == previousPage { rounds[round].pages.last = page }
    }

    mutating func addPage(_ round: RoundIndex, start: UInt64, isLowerBound: Bool = false) -> PageIndex {
        let (appIndex, expectedBytes) = (rounds[round].appIndex, rounds[round].pages.expectedBytes)
        let isLowerBoundKnown = isLowerBound || UInt32(truncatingIfNeeded: start) == 0
        let page = pages.allocate(
            PageSlot(
                round: round,
                appIndex: appIndex,
                startPosition: start,
                phase: isLowerBoundKnown ? .requestingPage : .requestingDirectory,
                expectedBytes: expectedBytes
            )
        )
        appQueues[Int(appIndex)].pageCount += 1
        appQueues[Int(appIndex)].pageBytes += expectedBytes
        rounds[round].pages.count += 1
        requestPage(page)
        return page
    }

    private mutating func requestPage(_ page: PageIndex) {
        pageReads.append(pages[page].phase == .requestingPage ? .page(page) : .directory(page))
    }

    func segment(of page: PageIndex) -> UInt8 {
        let round = rounds[pages[page].round]
        let ordinal = round.range.ordinals.lowerBound + pages[page].startPosition % round.progress.positionsPerLap
        return MemberLocation(ordinal: ordinal).segment
    }

    // MARK: - Replies

    mutating func directoryReceived(_ page: PageIndex, _ bytes: UnsafeRawBufferPointer?, now: Moment) {
        guard pages[page].phase != .discarded else { return freePage(page) }
        let wantedPosition = UInt32(truncatingIfNeeded: pages[page].startPosition)
        var wantedPageBound: UInt32?
        var nextPageBound: UInt32?
        let bounds = bytes ?? UnsafeRawBufferPointer(start: nil, count: 0)
        for offset in stride(from: 0, to: bounds.count / 4 * 4, by: 4) {
            let bound = UInt32(littleEndian: bounds.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
            if bound <= wantedPosition {
                wantedPageBound = max(wantedPageBound ?? 0, bound)
            } else {
                nextPageBound = min(nextPageBound ?? .max, bound)
            }
        }
        pages[page].directoryReadCount += 1
        guard let wantedPageBound, wantedPageBound != pages[page].unusablePageLowerBound,
            pages[page].directoryReadCount < Self.directoryReadsMax
        else {
            return leavePageEmpty(page, upTo: nextPageBound, now: now)
        }
        pages[page].lowerBound = wantedPageBound
        pages[page].phase = .requestingPage
        requestPage(page)
    }

    mutating func pageReceived(_ page: PageIndex, _ bytes: UnsafeRawBufferPointer?, now: Moment) {
        guard pages[page].phase != .discarded else { return freePage(page) }
        let wantedPosition = UInt32(truncatingIfNeeded: pages[page].startPosition)
        guard let bytes, !bytes.isEmpty else { return requestDirectory(for: page) }
        guard let content = MemberPage(bytes) else {
            counters.damagedPageCount &+= 1
            return requestDirectory(for: page)
        }
        guard content.contains(wantedPosition) else { return requestDirectory(for: page, isMissing: false) }
        let (memberCount, isWhole) = content.members(into: memberScratch)
        if !isWhole { counters.damagedPageCount &+= 1 }
        counters.readPageCount &+= 1
        var firstWanted = 0
        while firstWanted < memberCount, memberScratch[firstWanted].position < wantedPosition { firstWanted += 1 }
        pages[page].load(bytes, members: UnsafeBufferPointer(rebasing: memberScratch[firstWanted..<memberCount]))
        makeReady(page, upTo: content.nextBound, now: now)
    }

    /// Corrects the app's sum of page bytes: the page occupies its real bytes now, not the expected ones.
    ///
    /// A page that is larger than expected is kept. The app requests no other page until there is room again.
    private mutating func correctPageByteTotal(_ page: PageIndex) {
        let bytes = pages[page].block.mutableBytes.count
        appQueues[Int(pages[page].appIndex)].pageBytes += bytes - pages[page].occupiedBytes
        pages[page].occupiedBytes = bytes
        let round = pages[page].round
        rounds[round].pages.largestBytes = max(rounds[round].pages.largestBytes ?? 0, bytes)
    }

    private mutating func requestDirectory(for page: PageIndex, isMissing: Bool = true) {
        pages[page].unusablePageLowerBound = isMissing ? pages[page].lowerBound : nil
        pages[page].phase = .requestingDirectory
        requestPage(page)
    }

    /// Leaves the page empty, because the store has no readable page for its first position. The round continues at the
    /// next page, or at the end of the segment.
    private mutating func leavePageEmpty(_ page: PageIndex, upTo bound: UInt32?, now: Moment) {
        makeReady(page, upTo: bound, now: now)
    }

    private mutating func makeReady(_ page: PageIndex, upTo bound: UInt32?, now: Moment) {
        let base = pages[page].segmentStartPosition
        pages[page].endPosition = base + (bound.map { UInt64($0) } ?? MemberLocation.positionsPerSegment)
        pages[page].hasUnrequestedNextPage = bound != nil
        pages[page].phase = .ready
        pages[page].readAtMilliseconds = now.monotonicMilliseconds
        correctPageByteTotal(page)
        let appIndex = Int(pages[page].appIndex)
        // A page that is being read counts with its expected bytes. If it is smaller, waiting rounds may get a page.
        defer { offerFreePages(appIndex) }
        let round = pages[page].round
        if pages[page].parkedMember != .null { return parkedMemberReceived(page, now: now) }
        if pages[page].needsOnlyParkedMembers { return restoreParkedMembers(page, of: round, now: now) }
        advance(round, now: now)
    }

    // MARK: - Freeing pages

    /// Frees the pages of a round in order, up to the first page that is not done (`isDone`). The outcomes of their
    /// members are added to the counts of the round's versions. Then the round reads further pages.
    mutating func freeDonePages(of round: RoundIndex, now: Moment) {
        while case let page = rounds[round].pages.first, page != .null, isDone(page, of: round) {
            let slot = pages[page]
            for member in 0..<Int(slot.nextMemberIndex) {
                guard let outcome = MemberProgress.outcome(slot.progress(member)) else { continue }
                countOutcome(slot.position(member), outcome, under: slot.rangeVersion(member), of: round)
            }
            let end = readingEndPosition(of: round)
            rounds[round].progress.complete(upTo: min(slot.endPosition, end))
            rounds[round].progress.sendPosition = rounds[round].progress.turnPosition
            rounds[round].checkpoints.revision += 1
            // Members of the page at or above `end` got no push, because no version reaches them yet. For a later
            // version they are read again, from the completed position on.
            let mustReadNextPage =
                slot.hasUnrequestedNextPage && slot.endPosition < end && rounds[round].phase == .running
            if slot.endPosition >= end {
                rounds[round].progress.readPosition = rounds[round].progress.completedPosition
            }
            detachFirstPage(of: round)
            if mustReadNextPage {
                readNextPage(from: slot.endPosition, of: round, inPlaceOf: page)
            } else {
                freePage(page)
            }
        }
        markCompleteVersions(of: round)
        prefetchPages(of: round)
    }

    /// Whether every member of the page that must get a push has its outcome or is parked.
    private func isDone(_ page: PageIndex, of round: RoundIndex) -> Bool {
        let slot = pages[page]
        guard slot.phase == .ready, slot.unfinishedMemberCount == 0 else { return false }
        return slot.nextMemberIndex == slot.memberCount
            || slot.position(Int(slot.nextMemberIndex)) >= readingEndPosition(of: round)
    }

    private mutating func detachFirstPage(of round: RoundIndex) {
        let page = rounds[round].pages.first
        rounds[round].pages.first = pages[page].nextPage
        if rounds[round].pages.last == page { rounds[round].pages.last = .null }
        if rounds[round].pages.current == page { rounds[round].pages.current = .null }
    }

    /// Frees a done page, and at once requests the page that follows it in its segment. No other round can take the
    /// freed room in between, so a round that has one page always makes progress.
    private mutating func readNextPage(from start: UInt64, of round: RoundIndex, inPlaceOf donePage: PageIndex) {
        freePageWithoutOffer(donePage)
        let page = addPage(round, start: start, isLowerBound: true)
        pages[page].nextPage = rounds[round].pages.first
        rounds[round].pages.first = page
        if rounds[round].pages.last == .null { rounds[round].pages.last = page }
    }

    /// Drops the members of a round's pages that have not had their turn. The round's pages then end after the
    /// last member that had its turn.
    ///
    /// The caller must call ``offerFreePages(_:)`` afterwards.
    mutating func dropUnsentMembers(of round: RoundIndex) {
        var lastKeptPage = PageIndex.null
        var page = rounds[round].pages.first
        while page != .null, pages[page].phase == .ready {
            if pages[page].nextMemberIndex > 0 { lastKeptPage = page }
            page = pages[page].nextPage
        }
        guard lastKeptPage != .null else { return removePagesWithoutOffer(of: round) }
        pages[lastKeptPage].truncate(at: rounds[round].progress.sendPosition)
        let first = rounds[round].pages.first
        rounds[round].pages.first = pages[lastKeptPage].nextPage
        pages[lastKeptPage].nextPage = .null
        removePagesWithoutOffer(of: round)
        (rounds[round].pages.first, rounds[round].pages.last) = (first, lastKeptPage)
    }

    /// Drops the pages that were read ahead, so that they are read again: members may have joined or left
    /// since.
    ///
    /// Without this, a member that joined shortly before a newer version might never get that version: not on joining,
    /// and not from the round, whose pages lack the member.
    mutating func refreshPages(of round: RoundIndex) {
        discardPrefetchedMembers(of: round)
        offerFreePages(Int(rounds[round].appIndex))
    }

    /// Drops the members that have not had their turn, so that they are read again. The caller must call
    /// ``offerFreePages(_:)`` afterwards; ``refreshPages(of:)`` calls both.
    mutating func discardPrefetchedMembers(of round: RoundIndex) {
        dropUnsentMembers(of: round)
        rounds[round].progress.readPosition = rounds[round].progress.turnPosition
    }

    /// Removes all pages from a round, and frees them. A page that is being read is freed when the reply comes. A page
    /// with a push, start or refused member under way is freed when the last of them has ended.
    mutating func discardPages(of round: RoundIndex) {
        removePagesWithoutOffer(of: round)
        offerFreePages(Int(rounds[round].appIndex))
    }

    /// Removes all pages from the round's list. The caller must call ``offerFreePages(_:)`` afterwards. This method
    /// cannot call it: this round could get a page while ``dropUnsentMembers(of:)`` still changes the round's list.
    private mutating func removePagesWithoutOffer(of round: RoundIndex) {
        var page = rounds[round].pages.first
        rounds[round].pages.first = .null
        rounds[round].pages.last = .null
        rounds[round].pages.current = .null
        rounds[round].progress.readPosition = rounds[round].progress.completedPosition
        while page != .null {
            let next = pages[page].nextPage
            pages[page].nextPage = .null
            if pages[page].phase != .ready {
                rounds[round].pages.count -= 1
                pages[page].phase = .discarded
                // The round may be freed before the reply comes, so the page must not name it any more.
                pages[page].round = .null
            } else if pages[page].unfinishedMemberCount == 0 {
                freePageWithoutOffer(page)
            } else {
                pages[page].phase = .discarded
            }
            page = next
        }
    }

    /// Frees a page, and offers it to the rounds that wait for one.
    mutating func freePage(_ page: PageIndex) {
        let appIndex = Int(pages[page].appIndex)
        freePageWithoutOffer(page)
        offerFreePages(appIndex)
    }

    /// Gives free pages to the rounds that wait for one.
    ///
    /// If a waiting round no longer wants a page, the next round gets it. Otherwise the page would stay unused, and
    /// nothing would wake the waiting rounds until another page becomes free.
    mutating func offerFreePages(_ appIndex: Int) {
        let last = appQueues[appIndex].lastRoundAwaitingPage
        while case let first = appQueues[appIndex].firstRoundAwaitingPage, first != .null, hasFreePage(of: first),
            let waitingRound = popRoundAwaitingPage(appIndex)
        {
            if rounds[waitingRound].phase == .restoring {
                wake(waitingRound, at: 0)
            } else {
                prefetchPages(of: waitingRound, isFirstInQueue: true)
            }
            if waitingRound == last { return }
        }
    }

    /// Frees a page. The caller must then request a page itself or call ``offerFreePages(_:)``.
    private mutating func freePageWithoutOffer(_ page: PageIndex) {
        let slot = pages[page]
        if slot.round != .null { rounds[slot.round].pages.count -= 1 }
        appQueues[Int(slot.appIndex)].pageCount -= 1
        appQueues[Int(slot.appIndex)].pageBytes -= slot.occupiedBytes
        slot.freeBytes()
        pages.free(page)
    }
}
