import Delivery
import LiveActivity

/// Pages are read ahead of the members that are handed out. A page says where the next one begins, so the directory is asked only where a
/// round goes on in the middle of a segment, or a page has been split or merged meanwhile.
extension Audiences {
    /// Pages of one round at a time.
    private static var pagesPerRoundMax: UInt16 { 32 }
    /// Segments of one round that are read at a time.
    private static var segmentsAheadMax: UInt64 { 24 }
    /// A segment whose directory and pages contradict each other is passed over after so many attempts.
    private static var attemptsMax: UInt8 { 4 }

    /// Asks for as many pages as there is room for.
    ///
    /// - Parameter hasTurn: it has waited for a page the longest, and may take one before those that wait behind it.
    mutating func readAhead(of round: UInt32, hasTurn: Bool = false) {
        guard rounds[round].phase == .running, rounds[round].newest != .max else { return }
        let end = readEnd(of: round)
        var hasTurn = hasTurn
        while rounds[round].pageCount < Self.pagesPerRoundMax {
            let continued = pageToContinue(of: round, end: end)
            guard continued != nil || wantsSegment(round, end: end) else { return }
            guard hasTurn ? hasFreePage(of: round) : hasPage(for: round) else { return awaitPage(round) }
            hasTurn = false
            if let continued { continuePage(continued, of: round) } else { readSegment(of: round) }
        }
    }

    private func pageToContinue(of round: UInt32, end: UInt64) -> UInt32? {
        var page = rounds[round].firstPage
        while page != .max {
            if pages[page].phase == .ready, pages[page].needsContinuation {
                return pages[page].end < end ? page : nil
            }
            page = pages[page].next
        }
        return nil
    }

    /// Whether a page that is not asked for yet comes behind this one: the next in the list is not the next of the round then.
    func isContinued(_ page: UInt32, end: UInt64) -> Bool { pages[page].needsContinuation && pages[page].end < end }

    /// No segment is read again while members of its last lap are under way.
    private func wantsSegment(_ round: UInt32, end: UInt64) -> Bool {
        let slot = rounds[round]
        guard slot.readPosition < end else { return false }
        guard slot.firstPage != .max else { return true }
        let ahead = (slot.readPosition >> 32) &- (pages[slot.firstPage].start >> 32)
        return ahead < min(UInt64(slot.range.segmentCount), Self.segmentsAheadMax)
    }

    func hasPage(for round: UInt32) -> Bool {
        guard hasFreePage(of: round) else { return false }
        // Others have waited longer.
        return lines[Int(rounds[round].application)].firstAwaitingPage == .max || rounds[round].firstPage == .max
    }

    func hasFreePage(of round: UInt32) -> Bool {
        lines[Int(rounds[round].application)].pages < configuration.pagesPerApplication && !pages.isFull
    }

    private mutating func readSegment(of round: UInt32) {
        let start = rounds[round].readPosition
        let page = addPage(round, start: start)
        rounds[round].readPosition = (start >> 32 &+ 1) << 32
        let last = rounds[round].lastPage
        if last == .max { rounds[round].firstPage = page } else { pages[last].next = page }
        rounds[round].lastPage = page
    }

    private mutating func continuePage(_ before: UInt32, of round: UInt32) {
        pages[before].needsContinuation = false
        let page = addPage(round, start: pages[before].end, isBound: true)
        pages[page].next = pages[before].next
        pages[before].next = page
        if rounds[round].lastPage == before { rounds[round].lastPage = page }
    }

    mutating func addPage(_ round: UInt32, start: UInt64, isBound: Bool = false) -> UInt32 {
        let application = rounds[round].application
        let isKnown = isBound || UInt32(truncatingIfNeeded: start) == 0
        let page = pages.allocate(
            PageSlot(
                round: round,
                application: application,
                start: start,
                phase: isKnown ? .askingPage : .askingDirectory
            )
        )
        lines[Int(application)].pages += 1
        rounds[round].pageCount += 1
        ask(page)
        return page
    }

    private mutating func ask(_ page: UInt32) {
        pageQuestions.append(AudienceTicket(pages[page].phase == .askingPage ? .page : .directory, index: page))
    }

    /// The segment of a page.
    func segment(of page: UInt32) -> UInt8 {
        let round = rounds[pages[page].round]
        let ordinal = round.range.ordinals.lowerBound + pages[page].start % round.length
        return MemberPlace(ordinal: ordinal).segment
    }

    // MARK: - Replies

    mutating func directoryRead(_ page: UInt32, _ bytes: UnsafeRawBufferPointer?, now: Moment) {
        guard pages[page].phase != .discarded else { return freePage(page) }
        let wanted = UInt32(truncatingIfNeeded: pages[page].start)
        var covering: UInt32?
        var following: UInt32?
        let bounds = bytes ?? UnsafeRawBufferPointer(start: nil, count: 0)
        for offset in stride(from: 0, to: bounds.count / 4 * 4, by: 4) {
            let bound = UInt32(littleEndian: bounds.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
            if bound <= wanted {
                covering = max(covering ?? 0, bound)
            } else {
                following = min(following ?? .max, bound)
            }
        }
        pages[page].attempts += 1
        guard let covering, covering != pages[page].missingBound, pages[page].attempts < Self.attemptsMax else {
            return passOver(page, upTo: following, now: now)
        }
        pages[page].lowerBound = covering
        pages[page].phase = .askingPage
        ask(page)
    }

    mutating func pageRead(_ page: UInt32, _ bytes: UnsafeRawBufferPointer?, now: Moment) {
        guard pages[page].phase != .discarded else { return freePage(page) }
        let wanted = UInt32(truncatingIfNeeded: pages[page].start)
        guard let bytes, !bytes.isEmpty else { return askDirectory(for: page) }
        guard let content = MemberPage(bytes) else {
            counters.pagesDamaged &+= 1
            return askDirectory(for: page)
        }
        guard content.contains(wanted) else { return askDirectory(for: page, isMissing: false) }
        let (count, isWhole) = content.members(into: memberScratch)
        if !isWhole { counters.pagesDamaged &+= 1 }
        counters.pagesRead &+= 1
        var first = 0
        while first < count, memberScratch[first].position < wanted { first += 1 }
        pages[page].load(bytes, members: UnsafeBufferPointer(rebasing: memberScratch[first..<count]))
        makeReady(page, upTo: content.nextBound, now: now)
    }

    private mutating func askDirectory(for page: UInt32, isMissing: Bool = true) {
        pages[page].missingBound = isMissing ? pages[page].lowerBound : nil
        pages[page].phase = .askingDirectory
        ask(page)
    }

    /// There are no members up to the next page, if there is one.
    private mutating func passOver(_ page: UInt32, upTo bound: UInt32?, now: Moment) {
        makeReady(page, upTo: bound, now: now)
    }

    private mutating func makeReady(_ page: UInt32, upTo bound: UInt32?, now: Moment) {
        let base = pages[page].segmentBase
        pages[page].end = base + (bound.map { UInt64($0) } ?? MemberPlace.positionsPerSegment)
        pages[page].needsContinuation = bound != nil
        pages[page].phase = .ready
        pages[page].readMilliseconds = now.monotonicMilliseconds
        let round = pages[page].round
        if pages[page].parked != .max { return parkedMemberRead(page, now: now) }
        if pages[page].restores { return parkAgain(page, of: round, now: now) }
        moveOn(round, now: now)
    }

    // MARK: - Retirement

    /// Counts the pages whose members all have their outcomes or are parked, first to last, and frees them.
    mutating func retirePages(of round: UInt32, now: Moment) {
        while case let page = rounds[round].firstPage, page != .max, isDone(page, of: round) {
            let slot = pages[page]
            for member in 0..<Int(slot.sendIndex) {
                guard let outcome = MemberState.outcome(slot.state(member)) else { continue }
                countMember(slot.position(member), outcome, under: slot.version(member), of: round)
            }
            let end = readEnd(of: round)
            rounds[round].watermark = max(rounds[round].watermark, min(slot.end, end))
            rounds[round].sendPosition = max(rounds[round].sendPosition, rounds[round].watermark)
            rounds[round].revision += 1
            // What is not sent of it belongs to no version yet.
            let goesOn = slot.needsContinuation && slot.end < end && rounds[round].phase == .running
            if slot.end >= end { rounds[round].readPosition = rounds[round].watermark }
            detachFirst(of: round)
            if goesOn { readOn(from: slot.end, of: round, inPlaceOf: page) } else { freePage(page) }
        }
        finishVersions(of: round)
        readAhead(of: round)
    }

    /// All that is to be sent of a page is, and has its outcome.
    private func isDone(_ page: UInt32, of round: UInt32) -> Bool {
        let slot = pages[page]
        guard slot.phase == .ready, slot.unfinished == 0 else { return false }
        return slot.sendIndex == slot.memberCount || slot.position(Int(slot.sendIndex)) >= readEnd(of: round)
    }

    private mutating func detachFirst(of round: UInt32) {
        let page = rounds[round].firstPage
        rounds[round].firstPage = pages[page].next
        if rounds[round].lastPage == page { rounds[round].lastPage = .max }
        if rounds[round].sendPage == page { rounds[round].sendPage = .max }
    }

    /// In place of a page that was counted comes the one that follows it in its segment: a round that has one page always gets on. No other
    /// round gets the place between.
    private mutating func readOn(from start: UInt64, of round: UInt32, inPlaceOf counted: UInt32) {
        releasePage(counted)
        let page = addPage(round, start: start, isBound: true)
        pages[page].next = rounds[round].firstPage
        rounds[round].firstPage = page
        if rounds[round].lastPage == .max { rounds[round].lastPage = page }
    }

    /// Nothing more of a round's pages is handed out; what was, is counted as if they ended there. The pages that become free are to be
    /// offered then.
    mutating func truncatePages(of round: UInt32) {
        var kept = UInt32.max
        var page = rounds[round].firstPage
        while page != .max, pages[page].phase == .ready {
            if pages[page].sendIndex > 0 { kept = page }
            page = pages[page].next
        }
        guard kept != .max else { return releasePages(of: round) }
        pages[kept].truncate(at: rounds[round].sendPosition)
        let first = rounds[round].firstPage
        rounds[round].firstPage = pages[kept].next
        pages[kept].next = .max
        releasePages(of: round)
        (rounds[round].firstPage, rounds[round].lastPage) = (first, kept)
    }

    /// What was read ahead is read again: who has left meanwhile is sent nothing, and who has joined is reached.
    mutating func refreshPages(of round: UInt32) {
        giveUpReadAhead(of: round)
        offerFreePages(Int(rounds[round].application))
    }

    /// As ``refreshPages(of:)``; the pages that become free are to be offered then.
    mutating func giveUpReadAhead(of round: UInt32) {
        truncatePages(of: round)
        rounds[round].readPosition = max(rounds[round].sendPosition, rounds[round].watermark)
    }

    /// The round wants nothing of its pages any more, but for the members that are on their way.
    mutating func discardPages(of round: UInt32) {
        releasePages(of: round)
        offerFreePages(Int(rounds[round].application))
    }

    /// Offers none of them: the round that gives them up may wait for one itself.
    private mutating func releasePages(of round: UInt32) {
        var page = rounds[round].firstPage
        rounds[round].firstPage = .max
        rounds[round].lastPage = .max
        rounds[round].sendPage = .max
        rounds[round].readPosition = rounds[round].watermark
        while page != .max {
            let next = pages[page].next
            pages[page].next = .max
            if pages[page].phase != .ready {
                rounds[round].pageCount -= 1
                pages[page].phase = .discarded
                // Nothing names the round any more: it may be freed before the reply comes.
                pages[page].round = .max
            } else if pages[page].unfinished == 0 {
                releasePage(page)
            } else {
                pages[page].phase = .discarded
            }
            page = next
        }
    }

    mutating func freePage(_ page: UInt32) {
        let application = Int(pages[page].application)
        releasePage(page)
        offerFreePages(application)
    }

    /// A round that waits for a page may want none any more: then the next one gets it. Else the page would lie idle, and the last page to
    /// become free would leave rounds behind that nobody wakes.
    mutating func offerFreePages(_ application: Int) {
        let last = lines[application].lastAwaitingPage
        while last != .max, lines[application].pages < configuration.pagesPerApplication, !pages.isFull,
            let waiting = popAwaitingPage(application)
        {
            if rounds[waiting].phase == .restoring {
                wake(waiting, at: 0)
            } else {
                readAhead(of: waiting, hasTurn: true)
            }
            if waiting == last { return }
        }
    }

    private mutating func releasePage(_ page: UInt32) {
        let slot = pages[page]
        if slot.round != .max { rounds[slot.round].pageCount -= 1 }
        lines[Int(slot.application)].pages -= 1
        slot.freeBytes()
        pages.free(page)
    }
}
