/// More examples of results for the page of records, each with a text that says what the result shows. The first
/// example, an ordinary `accepted`, is in ``RecordFormat/result``.
enum CommandResultExamples {
    static let moreExamples = [
        (
            text: """
            No token of the activity is registered, so the command is held. It has another result with the same \
            `command` when a token is registered and the state is sent.
            """,
            record:
                #"{"command": "ride-4", "app": "com.example.ride", "activity": "phone-7-RideAttributes-1", "outcome": "held", "#
                + #""attempts": 0, "source": {"topic": "causeway.commands", "partition": 3, "offset": 18}, "#
                + #""times": {"record": 1790000005001, "received": 1790000005003, "admitted": 1790000005005}}"#
        ),
        (
            text: """
            The record is invalid. [Dead letters](#dead-letter-causewaydead-letters) shows the record and its dead \
            letter.
            """,
            record: #"{"command": "\#(DeadLetterReference.exampleSource)", "outcome": "invalid", "#
                + #""reason": "\#(DeadLetterReference.exampleFault.error)", "attempts": 0, "#
                + #""source": {"topic": "causeway.commands", "partition": 3, "offset": 19}, "#
                + #""times": {"record": 1790000006001, "received": 1790000006003}}"#
        ),
        (
            text: "The body was too large, so a field of the content state was dropped by the policy's `oversize`.",
            record:
                #"{"command": "final-lineups", "app": "com.example.match", "activity": "final-phone-21", "outcome": "accepted", "#
                + #""status": 200, "apnsId": "1c7a3f0e-95d4-4a6b-8b0e-6f2d9c5a7e31", "priority": 5, "dropped": ["lineups"], "attempts": 1, "#
                + #""timestamp": 1790000007, "source": {"topic": "causeway.commands", "partition": 3, "offset": 20}, "#
                + #""times": {"record": 1790000007001, "received": 1790000007003, "admitted": 1790000007005, "sent": 1790000007006, "#
                + #""responded": 1790000007031}}"#
        ),
        (
            text: "The lifetime of the activity was over, so Causeway wrote a command that ended it.",
            record:
                #"{"command": "lifetime:1790000000000", "app": "com.example.ride", "activity": "phone-7-RideAttributes-0", "#
                + #""outcome": "accepted", "status": 200, "cause": "lifetime", "apnsId": "5e9b2c41-0d7f-4f3a-a6c8-2b1d4e7f9a03", "#
                + #""priority": 10, "attempts": 1, "timestamp": 1790028200, "#
                + #""source": {"topic": "causeway.commands", "partition": 3, "offset": 21}, "#
                + #""times": {"record": 1790028200001, "received": 1790028200003, "admitted": 1790028200005, "sent": 1790028200006, "#
                + #""responded": 1790028200031}}"#
        ),
    ]
}
