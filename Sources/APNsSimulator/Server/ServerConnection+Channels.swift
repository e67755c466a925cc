extension ServerConnection {
    /// Carries out a broadcast or a request to the management service, and returns the response. Counts a success in
    /// the statistics.
    func processChannelRequest(
        _ slot: UnsafeMutablePointer<RequestSlot>,
        teamId: String,
        nowMilliseconds: Int64
    ) -> SimulatedResponse {
        let isBroadcast = slot.pointee.head.path == .broadcast
        let response = server.setup.sharedModel.withModel { model in
            isBroadcast
                ? ChannelRequestHandler.publishBroadcast(
                    slot,
                    teamId: teamId,
                    model: &model,
                    tape: &server.tape,
                    nowMilliseconds: nowMilliseconds
                )
                : ChannelRequestHandler.carryOutManagementRequest(
                    slot,
                    teamId: teamId,
                    model: &model,
                    tape: &server.tape,
                    nowMilliseconds: nowMilliseconds
                )
        }
        guard response == .success else { return response }
        if isBroadcast { server.statistics.broadcastCount += 1 }
        if slot.pointee.successStatus == .created { server.statistics.createdChannelCount += 1 }
        if slot.pointee.successStatus == .deleted { server.statistics.deletedChannelCount += 1 }
        return response
    }
}
