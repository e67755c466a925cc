import Delivery

/// The room for pages, which the rounds (``RoundSlot``) of an app share. A round that finds no room waits in the app's
/// page queue (``AppWork``).
extension Audiences {
    func mayTakePage(for round: RoundIndex) -> Bool {
        guard hasRoomForPage(of: round) else { return false }
        // A round that has pages takes no further page while other rounds wait for one.
        return apps[Int(rounds[round].appIndex)].firstRoundInPageQueue == .null
            || rounds[round].pages.first == .null
    }

    func hasRoomForPage(of round: RoundIndex) -> Bool {
        let app = apps[Int(rounds[round].appIndex)]
        return app.pageCount < configuration.pagesPerAppMax && !pages.isFull
            && app.pageBytes + rounds[round].pages.nextPageExpectedBytes <= configuration.pageBytesPerAppMax
    }

    /// Lets rounds that wait for a page read on, one after the other, while there is room for pages. If a waiting round
    /// no longer needs a page, the next one gets the room. Otherwise the room would stay unused, and the other rounds
    /// would wait until another page is freed.
    mutating func offerPageRoom(_ appIndex: Int) {
        let last = apps[appIndex].lastRoundInPageQueue
        while case let first = apps[appIndex].firstRoundInPageQueue, first != .null, hasRoomForPage(of: first),
            let waitingRound = popFirstFromPageQueue(appIndex)
        {
            if rounds[waitingRound].phase == .restoring {
                // Give the round its page now. If a timer did this, another round would take the room before. If the
                // round cannot use a page, a timer calls `advance`, which knows the round's next step, but needs the
                // time.
                if !takePageToRestoreParkedMembers(of: waitingRound) { scheduleAdvance(of: waitingRound, at: 0) }
            } else {
                let hasTakenPage = takePageForAwaitingParkedMember(of: waitingRound)
                prefetchPages(of: waitingRound, isFirstInQueue: !hasTakenPage)
            }
            // `last` was the last round in the queue when this method began. A round that has queued again since then
            // waits for the next call, so that the loop ends. (R4)
            if waitingRound == last { return }
        }
    }
}
