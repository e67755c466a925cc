import Delivery
import LiveActivity

/// Reads pages before their round (``RoundSlot``) needs the members.
///
/// A page says where the next page of its segment begins. So the round usually reads page after page. It reads the
/// segment's directory (the list of the pages' lower bounds) only in two cases:
/// - It needs a position in the middle of the segment, such as a parked member's.
/// - The page that it requested does not exist, has been split, or is damaged.
extension Audiences {
    /// The maximum number of pages of a round, including those that are being read. Pages that are read for one parked
    /// member may exceed this number. (R4)
    private static var pagesPerRoundMax: UInt16 { 32 }
    /// The maximum number of segments that one round reads at a time. (R4)
    private static var segmentsAheadMax: UInt64 { 24 }
    /// The maximum number of times that the core reads a segment's directory to find one page. After the last time, the
    /// core assumes that the directory and the pages contradict each other, and skips the positions up to the lower
    /// bound of the next page. Without this limit, the reading might never end. (R4)
    private static var directoryReadsMax: UInt8 { 4 }

    /// Requests the pages that the round needs next, as many as there is room for. If there is no room, puts the round
    /// into its app's page queue. Does nothing if the round is not running, has no version, or is halted.
    ///
    /// - Parameter isFirstInQueue: whether the round was the first in its app's page queue. If so, it may take one page
    ///   although other rounds wait.
    mutating func prefetchPages(of round: RoundIndex, isFirstInQueue: Bool = false) {
        guard rounds[round].phase == .running, rounds[round].versions.last != .null, !isHalted(round) else { return }
        let endPosition = readingEndPosition(of: round)
        var isFirstInQueue = isFirstInQueue
        while rounds[round].pages.count < Self.pagesPerRoundMax {
            let previousPage = pageWithUnrequestedNextPage(of: round, endPosition: endPosition)
            guard previousPage != nil || mayReadNextSegment(round, endPosition: endPosition) else { return }
            guard isFirstInQueue ? hasRoomForPage(of: round) : mayTakePage(for: round) else {
                return addToPageQueue(round)
            }
            isFirstInQueue = false
            if let previousPage {
                addFollowingPage(previousPage, of: round)
            } else {
                addPageAtReadPosition(of: round)
            }
        }
    }

    /// Returns the first page of the round behind which a page of the same segment must be requested; nil if there is
    /// none.
    private func pageWithUnrequestedNextPage(of round: RoundIndex, endPosition: UInt64) -> PageIndex? {
        var page = rounds[round].pages.first
        while page != .null {
            if pages[page].phase == .ready, pages[page].hasUnrequestedNextPage {
                return pages[page].endPosition < endPosition ? page : nil
            }
            page = pages[page].nextInList
        }
        return nil
    }

    /// Whether the round needs the page that follows this one in Redis, and has not requested it yet. If so, the round
    /// must stop at the end of this page: the next page in the round's list begins behind the missing page, and the
    /// round would skip the members of the missing page.
    func needsUnrequestedPage(after page: PageIndex, endPosition: UInt64) -> Bool {
        pages[page].hasUnrequestedNextPage && pages[page].endPosition < endPosition
    }

    /// Whether the round needs the next segment and may read it now. It reads at most `segmentsAheadMax` segments at a
    /// time, and at most as many as its range has: one more would be the first segment again, in the next lap, while
    /// members of this lap are still under way.
    private func mayReadNextSegment(_ round: RoundIndex, endPosition: UInt64) -> Bool {
        let slot = rounds[round]
        guard slot.progress.readPosition < endPosition else { return false }
        guard slot.pages.first != .null else { return true }
        let positionsPerSegment = MemberLocation.positionsPerSegment
        let segmentsAheadCount =
            slot.progress.readPosition / positionsPerSegment
            &- pages[slot.pages.first].startPosition / positionsPerSegment
        return segmentsAheadCount < min(UInt64(slot.range.segmentCount), Self.segmentsAheadMax)
    }

    /// Appends a page for the segment in which `readPosition` lies to the round's list of pages, and moves
    /// `readPosition` to the next segment.
    private mutating func addPageAtReadPosition(of round: RoundIndex) {
        let startPosition = rounds[round].progress.readPosition
        let page = addPage(round, startPosition: startPosition)
        let nextSegment = startPosition / MemberLocation.positionsPerSegment &+ 1
        rounds[round].progress.readPosition = nextSegment &* MemberLocation.positionsPerSegment
        rounds[round].pages.list.append(page, in: &pages)
    }

    /// Requests the page that follows `previousPage` in its segment, and puts it behind `previousPage` in the round's
    /// list.
    private mutating func addFollowingPage(_ previousPage: PageIndex, of round: RoundIndex) {
        pages[previousPage].hasUnrequestedNextPage = false
        let page = addPage(round, startPosition: pages[previousPage].endPosition, isPageLowerBound: true)
        rounds[round].pages.list.insert(page, behind: previousPage, in: &pages)
    }

    /// Adds a page that begins at `startPosition`: counts it for the round and the app, and requests the page or, if
    /// its lower bound is not known, the directory. The caller then links the page to the round or to a parked member.
    mutating func addPage(_ round: RoundIndex, startPosition: UInt64, isPageLowerBound: Bool = false) -> PageIndex {
        let (appIndex, expectedBytes) = (rounds[round].appIndex, rounds[round].pages.nextPageExpectedBytes)
        // A segment has 2^32 positions. So the low 32 bits of a round's position are the position in the segment, and 0
        // is the lower bound of a segment's first page.
        let isLowerBoundKnown = isPageLowerBound || UInt32(truncatingIfNeeded: startPosition) == 0
        let page = pages.allocate(
            PageSlot(
                round: round,
                appIndex: appIndex,
                startPosition: startPosition,
                phase: isLowerBoundKnown ? .requestingPage : .requestingDirectory,
                expectedBytes: expectedBytes
            )
        )
        apps[Int(appIndex)].pageCount += 1
        apps[Int(appIndex)].pageBytes += expectedBytes
        rounds[round].pages.count += 1
        requestRead(of: page)
        return page
    }

    private mutating func requestRead(of page: PageIndex) {
        pageReads.append(pages[page].phase == .requestingPage ? .readPage(page) : .readDirectory(page))
    }

    func segment(of page: PageIndex) -> UInt8 {
        let slot = rounds[pages[page].round]
        let ordinal = slot.range.ordinals.lowerBound + pages[page].startPosition % slot.progress.positionsPerLap
        return MemberLocation(ordinal: ordinal).segment
    }

    // MARK: - Replies with pages

    /// Finds in a segment's directory which stored page contains the position that `page` needs, and requests this
    /// stored page. If there is none, or if it cannot be used, `page` becomes ready without members. If `page` was
    /// discarded, frees it. If the store may lack members, `page` may wait
    /// (``beginWaitIfMembersMissing(of:isSegmentMissing:now:)``).
    ///
    /// - Parameter bytes: the lower bounds of the segment's pages, four bytes each; nil or empty if there is no
    ///   directory.
    mutating func handleDirectory(_ page: PageIndex, _ bytes: UnsafeRawBufferPointer?, now: Moment) {
        guard pages[page].phase != .discarded else { return freePageAndOfferRoom(page) }
        if beginWaitIfMembersMissing(of: page, isSegmentMissing: bytes?.isEmpty ?? true, now: now) { return }
        let wantedPosition = UInt32(truncatingIfNeeded: pages[page].startPosition)
        var wantedPageLowerBound: UInt32?
        var nextPageLowerBound: UInt32?
        let lowerBounds = bytes ?? UnsafeRawBufferPointer(start: nil, count: 0)
        for offset in stride(from: 0, to: lowerBounds.count / 4 * 4, by: 4) {
            let lowerBound = UInt32(littleEndian: lowerBounds.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
            if lowerBound <= wantedPosition {
                wantedPageLowerBound = max(wantedPageLowerBound ?? 0, lowerBound)
            } else {
                nextPageLowerBound = min(nextPageLowerBound ?? .max, lowerBound)
            }
        }
        pages[page].directoryReadCount += 1
        guard let wantedPageLowerBound, wantedPageLowerBound != pages[page].unusablePageLowerBound,
            pages[page].directoryReadCount < Self.directoryReadsMax
        else {
            // The store has no readable page that contains `wantedPosition`, or the limit of readings is reached. So
            // the page becomes ready without members, and the round continues at the lower bound of the next page, or
            // at the end of the segment.
            return makeReady(page, nextPageLowerBound: nextPageLowerBound, now: now)
        }
        pages[page].lowerBound = wantedPageLowerBound
        pages[page].enter(.requestingPage)
        requestRead(of: page)
    }

    /// Makes `page` ready with the members that the store has returned, from the position that `page` needs. If the
    /// stored page is missing, damaged, or does not contain this position, requests the directory instead. If `page`
    /// was discarded, frees it. If the store may lack members, `page` may wait
    /// (``beginWaitIfMembersMissing(of:isSegmentMissing:now:)``).
    mutating func handlePage(_ page: PageIndex, _ bytes: UnsafeRawBufferPointer?, now: Moment) {
        guard pages[page].phase != .discarded else { return freePageAndOfferRoom(page) }
        if beginWaitIfMembersMissing(of: page, isSegmentMissing: false, now: now) { return }
        let wantedPosition = UInt32(truncatingIfNeeded: pages[page].startPosition)
        guard let bytes, !bytes.isEmpty else { return requestDirectory(for: page) }
        guard let memberPage = MemberPage(bytes) else {
            counters.damagedPageCount &+= 1
            return requestDirectory(for: page)
        }
        guard memberPage.contains(wantedPosition) else { return requestDirectory(for: page, isPageUnusable: false) }
        let (memberCount, isWhole) = memberPage.members(
            into: memberReferenceBuffer,
            nowMilliseconds: now.wallMilliseconds
        )
        if !isWhole { counters.damagedPageCount &+= 1 }
        counters.readPageCount &+= 1
        var firstWantedIndex = 0
        while firstWantedIndex < memberCount, memberReferenceBuffer[firstWantedIndex].position < wantedPosition {
            firstWantedIndex += 1
        }
        let wantedReferences = UnsafeBufferPointer(rebasing: memberReferenceBuffer[firstWantedIndex..<memberCount])
        pages[page].load(bytes, members: wantedReferences)
        makeReady(page, nextPageLowerBound: memberPage.nextLowerBound, now: now)
    }

    /// Counts a page that was read with its real bytes instead of the expected ones. If the app's pages then exceed its
    /// limit, the app requests no other page until there is room again. Also notes the size, from which the round
    /// estimates its next pages.
    private mutating func correctPageByteTotal(_ page: PageIndex) {
        let bytes = pages[page].pageAndArrays.mutableBuffer.count
        apps[Int(pages[page].appIndex)].pageBytes += bytes - pages[page].occupiedBytes
        pages[page].occupiedBytes = bytes
        let round = pages[page].round
        rounds[round].pages.largestPageBytes = max(rounds[round].pages.largestPageBytes ?? 0, Int64(bytes))
    }

    /// Requests the directory of the page's segment, to look for the page that has the wanted position.
    ///
    /// - Parameter isPageUnusable: whether the stored page is missing or damaged, so that it must not be read again.
    private mutating func requestDirectory(for page: PageIndex, isPageUnusable: Bool = true) {
        pages[page].unusablePageLowerBound = isPageUnusable ? pages[page].lowerBound : nil
        pages[page].enter(.requestingDirectory)
        requestRead(of: page)
    }

    /// Makes a page ready, with the members that were read, or without members. Then the work that waited for the page
    /// continues: the round advances, or parked members are parked again.
    ///
    /// - Parameter nextPageLowerBound: the position in the segment at which this page ends and the next one begins;
    ///   nil: this page is the last one of its segment.
    private mutating func makeReady(_ page: PageIndex, nextPageLowerBound: UInt32?, now: Moment) {
        let segmentStart = pages[page].segmentStartPosition
        pages[page].endPosition =
            segmentStart + (nextPageLowerBound.map { UInt64($0) } ?? MemberLocation.positionsPerSegment)
        pages[page].hasUnrequestedNextPage = nextPageLowerBound != nil
        pages[page].enter(.ready)
        pages[page].readAtMilliseconds = now.monotonicMilliseconds
        correctPageByteTotal(page)
        let appIndex = Int(pages[page].appIndex)
        // If the page is smaller than expected, there may now be room for a page of a waiting round.
        defer { offerPageRoom(appIndex) }
        let round = pages[page].round
        if pages[page].parkedMember != .null { return handlePageOfParkedMember(page, now: now) }
        if pages[page].needsOnlyParkedMembers { return restoreParkedMembers(page, of: round, now: now) }
        advance(round, now: now)
    }

    // MARK: - Freeing pages

    /// Frees the round's pages in order, up to the first one that is not done (`isDone`). Adds the outcomes of the
    /// members on the freed pages to the counts of the round's versions. Then lets complete versions wait for a
    /// checkpoint, and requests further pages.
    mutating func freeDonePages(of round: RoundIndex, now: Moment) {
        while case let page = rounds[round].pages.first, page != .null, isDone(page, of: round) {
            let slot = pages[page]
            for memberIndex in 0..<Int(slot.nextMemberIndex) {
                guard case .done(let outcome) = slot.progress(memberIndex) else { continue }
                countOutcome(slot.position(memberIndex), outcome, under: slot.rangeVersion(memberIndex), of: round)
            }
            let endPosition = readingEndPosition(of: round)
            rounds[round].progress.complete(upTo: min(slot.endPosition, endPosition))
            rounds[round].progress.sendPosition = rounds[round].progress.currentPosition
            rounds[round].checkpoints.revision += 1
            let mustReadNextPage =
                slot.hasUnrequestedNextPage && slot.endPosition < endPosition && rounds[round].phase == .running
            // Members at or above `endPosition` have not had their turn, because the round stops there now. Let the
            // round read them again when it goes on: reading continues at the completed position.
            if slot.endPosition >= endPosition {
                rounds[round].progress.readPosition = rounds[round].progress.completedPosition
            }
            detachFirstPage(of: round)
            if mustReadNextPage {
                readNextPage(from: slot.endPosition, of: round, inPlaceOf: page)
            } else {
                freePageAndOfferRoom(page)
            }
        }
        letCompleteVersionsAwaitCheckpoint(of: round)
        prefetchPages(of: round)
    }

    /// Whether nothing is left to do on the page: it is ready, and each member below ``readingEndPosition(of:)`` has
    /// its outcome or is parked.
    private func isDone(_ page: PageIndex, of round: RoundIndex) -> Bool {
        let slot = pages[page]
        guard slot.phase == .ready, slot.underWayMemberCount == 0 else { return false }
        return slot.nextMemberIndex == slot.memberCount
            || slot.position(Int(slot.nextMemberIndex)) >= readingEndPosition(of: round)
    }

    private mutating func detachFirstPage(of round: RoundIndex) {
        let page = rounds[round].pages.list.popFirst(in: &pages)
        if rounds[round].pages.current == page { rounds[round].pages.current = .null }
    }

    /// Frees a page that is done, and at once requests the page that follows in its segment. So no other round can take
    /// the freed room. Even if a round may have only one page, it makes progress.
    private mutating func readNextPage(from startPosition: UInt64, of round: RoundIndex, inPlaceOf donePage: PageIndex)
    {
        freePage(donePage)
        let page = addPage(round, startPosition: startPosition, isPageLowerBound: true)
        rounds[round].pages.list.prepend(page, in: &pages)
    }

    // MARK: - Discarding members and pages

    /// Discards all pages of a round that has ended, is abandoned or has lost its claim, and offers the freed room to
    /// the waiting rounds. The outcomes on these pages no longer count: if the round gets a new claim and sends again,
    /// it begins at its completed position. To keep the outcomes, use
    /// ``discardUnsentMembers(of:offersRoomToWaitingRounds:)``.
    mutating func discardAllPages(of round: RoundIndex) {
        discardListedPages(of: round)
        offerPageRoom(Int(rounds[round].appIndex))
    }

    /// Discards the members that have not had their turn, and offers the freed room to the waiting rounds. A running
    /// round reads these members again, from its current position on. Called in one of three cases:
    /// - The pages were read too long ago, or a newer version takes over. The pages then lack the members that joined
    ///   after the reading, and these members were shown an older version when they joined.
    /// - Another page is needed sooner, and there is no room for it.
    /// - The round sends nothing more, but the outcomes of the members that have had their turn must be recorded.
    ///
    /// - Parameter offersRoomToWaitingRounds: false if the caller first takes the room for a page of this round, and
    ///   then calls ``offerPageRoom(_:)``.
    mutating func discardUnsentMembers(of round: RoundIndex, offersRoomToWaitingRounds: Bool = true) {
        var lastKeptPage = PageIndex.null
        var page = rounds[round].pages.first
        while page != .null, pages[page].phase == .ready {
            if pages[page].nextMemberIndex > 0 { lastKeptPage = page }
            page = pages[page].nextInList
        }
        if lastKeptPage == .null {
            discardListedPages(of: round)
        } else {
            pages[lastKeptPage].truncate(at: rounds[round].progress.sendPosition)
            let unsentPages = rounds[round].pages.list.removeAll(behind: lastKeptPage, in: &pages)
            let keptPages = rounds[round].pages.list
            rounds[round].pages.list = unsentPages
            discardListedPages(of: round)
            rounds[round].pages.list = keptPages
        }
        rounds[round].progress.readPosition = rounds[round].progress.currentPosition
        if offersRoomToWaitingRounds { offerPageRoom(Int(rounds[round].appIndex)) }
    }

    /// Removes all pages from a round's list. Frees each page now or, if a reply or an outcome is still to come for it,
    /// later (``PageSlot/Phase/discarded``).
    ///
    /// The caller must offer the freed room afterwards. If this function offered the room itself, the round could get a
    /// page while ``discardUnsentMembers(of:offersRoomToWaitingRounds:)`` still changes the list.
    private mutating func discardListedPages(of round: RoundIndex) {
        var listedPages = rounds[round].pages.list
        rounds[round].pages.list = LinkedList()
        rounds[round].pages.current = .null
        rounds[round].progress.readPosition = rounds[round].progress.completedPosition
        while let page = listedPages.popFirst(in: &pages) {
            if pages[page].phase != .ready {
                rounds[round].pages.count -= 1
                pages[page].enter(.discarded)
                // The round may be freed before the reply comes, so the page must not name it any more.
                pages[page].round = .null
            } else if pages[page].underWayMemberCount == 0 {
                freePage(page)
            } else {
                pages[page].enter(.discarded)
            }
        }
    }

    mutating func freePageAndOfferRoom(_ page: PageIndex) {
        let appIndex = Int(pages[page].appIndex)
        freePage(page)
        offerPageRoom(appIndex)
    }

    /// Frees a page. The caller must then request another page in its place, or call ``offerPageRoom(_:)``.
    private mutating func freePage(_ page: PageIndex) {
        let slot = pages[page]
        if slot.round != .null { rounds[slot.round].pages.count -= 1 }
        apps[Int(slot.appIndex)].pageCount -= 1
        apps[Int(slot.appIndex)].pageBytes -= slot.occupiedBytes
        slot.freeBytes()
        pages.free(page)
    }
}
