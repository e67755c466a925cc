import Delivery

/// The room for pages, which the rounds (``RoundSlot``) of an app share. A round that finds no room waits in the app's
/// page queue (``AppWork``).
extension Audiences {
    func mayTakePage(for round: RoundIndex) -> Bool {
        guard hasRoomForPage(of: round) else { return false }
        // A round that already has a page lets the rounds in the queue go first.
        return apps[Int(rounds[round].appIndex)].pageQueue.isEmpty
            || rounds[round].pages.first == .null
    }

    func hasRoomForPage(of round: RoundIndex) -> Bool {
        let app = apps[Int(rounds[round].appIndex)]
        return app.pageCount < configuration.pagesPerAppMax && !pages.isFull
            && app.pageBytes + rounds[round].pages.nextPageExpectedBytes <= configuration.pageBytesPerAppMax
    }

    /// Gives an app's free room for pages to its waiting rounds, one after the other. If a waiting round no longer
    /// needs a page, the next one gets the room. Otherwise the room would stay unused until another page is freed.
    mutating func offerPageRoom(_ appIndex: Int) {
        let last = apps[appIndex].pageQueue.last
        while case let first = apps[appIndex].pageQueue.first, first != .null, hasRoomForPage(of: first),
            let waitingRound = popFirstFromPageQueue(appIndex)
        {
            if rounds[waitingRound].phase == .restoring {
                // Request the page now: until a timer fires, another round might take the room. If the round cannot use
                // a page, `advance` must do its next step. This function has no `Moment` for `advance`, so a timer
                // calls it.
                if !givePageToRestoreParkedMembers(of: waitingRound) { scheduleAdvance(of: waitingRound, at: 0) }
            } else {
                let hasGivenPage = givePageToAwaitingParkedMember(of: waitingRound)
                prefetchPages(of: waitingRound, isFirstInQueue: !hasGivenPage)
            }
            // `last` was the last round in the queue when this method began. The rounds behind it have had their turn
            // and queued again. So stop here, and the loop ends. (R4)
            if waitingRound == last { return }
        }
    }
}
