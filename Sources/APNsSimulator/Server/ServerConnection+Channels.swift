extension ServerConnection {
    /// Carries out a broadcast or a request to the management service.
    func processChannelRequest(
        _ slot: UnsafeMutablePointer<RequestSlot>,
        teamIdentifier: String,
        nowMilliseconds: Int64
    ) -> Reason {
        let isBroadcast = slot.pointee.head.path == .broadcast
        let reason = owner.setup.sharedModel.withModel { model in
            isBroadcast
                ? ChannelRequestHandler.handleBroadcast(
                    slot,
                    teamIdentifier: teamIdentifier,
                    model: &model,
                    tape: &owner.tape,
                    nowMilliseconds: nowMilliseconds
                )
                : ChannelRequestHandler.handleManagementRequest(
                    slot,
                    teamIdentifier: teamIdentifier,
                    model: &model,
                    tape: &owner.tape,
                    nowMilliseconds: nowMilliseconds
                )
        }
        guard reason == .success else { return reason }
        if isBroadcast { owner.statistics.broadcasts += 1 }
        if slot.pointee.successStatus == .created { owner.statistics.channelsCreated += 1 }
        if slot.pointee.successStatus == .deleted { owner.statistics.channelsDeleted += 1 }
        return reason
    }
}
