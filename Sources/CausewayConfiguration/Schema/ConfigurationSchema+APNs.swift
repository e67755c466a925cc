extension ConfigurationSchema {
    static let apnsKeys: [SchemaKey<WorkerConfiguration>] = [
        .text(
            "apns.production.host",
            \.apns.production.host,
            .host,
            meaning: "Apple's host for apps from the App Store and TestFlight; use another one for tests."
        ),
        .integer(
            "apns.production.port",
            \.apns.production.port,
            1...65_535,
            meaning: "The host's port: 443, or 2197 if a firewall requires it."
        ),
        .optionalText(
            "apns.production.broadcastHost",
            \.apns.production.broadcastHost,
            .host,
            meaning: """
                The host for broadcasts to channels, if it is not host. Apple's pages name both api.push.apple.com and \
                api-broadcast.push.apple.com. If broadcasts have another host or port, each lane has a second pool of \
                connections for each app in this environment, which sends only broadcasts.
                """
        )
        .whenUnset("host"),
        .integer(
            "apns.production.broadcastPort",
            \.apns.production.broadcastPort,
            0...65_535,
            meaning: "The port for broadcasts; 0: as port."
        ),
        .text(
            "apns.production.managementHost",
            \.apns.production.managementHost,
            .host,
            meaning: "Apple's host for the management of broadcast channels."
        ),
        .integer(
            "apns.production.managementPort",
            \.apns.production.managementPort,
            1...65_535,
            meaning: "The management host's port; firewalls must allow connections to it."
        ),
        .text("apns.sandbox.host", \.apns.sandbox.host, .host, meaning: "Apple's host for development builds."),
        .integer(
            "apns.sandbox.port",
            \.apns.sandbox.port,
            1...65_535,
            meaning: "The sandbox host's port: 443, or 2197 if a firewall requires it."
        ),
        .optionalText(
            "apns.sandbox.broadcastHost",
            \.apns.sandbox.broadcastHost,
            .host,
            meaning: """
                The sandbox host for broadcasts to channels, if it is not host. Apple's pages name both \
                api.sandbox.push.apple.com and api-broadcast.sandbox.push.apple.com. If broadcasts have another host \
                or port, each lane has a second pool of connections for each app in this environment, which sends \
                only broadcasts.
                """
        )
        .whenUnset("host"),
        .integer(
            "apns.sandbox.broadcastPort",
            \.apns.sandbox.broadcastPort,
            0...65_535,
            meaning: "The sandbox port for broadcasts; 0: as port."
        ),
        .text(
            "apns.sandbox.managementHost",
            \.apns.sandbox.managementHost,
            .host,
            meaning: "Apple's sandbox host for the management of broadcast channels."
        ),
        .integer(
            "apns.sandbox.managementPort",
            \.apns.sandbox.managementPort,
            1...65_535,
            meaning: "The sandbox management host's port; firewalls must allow connections to it."
        ),
        .optionalFile(
            "apns.caFile",
            \.apns.caFile,
            meaning: """
                PEM file with the certificate authorities to check APNs' certificate against: a simulator's, or a \
                pinned root.
                """
        )
        .whenUnset("the system's"),
        .optionalFile(
            "apns.sharedTokenKeyFile",
            \.apns.sharedTokenKeyFile,
            meaning: """
                File with the key that encrypts provider tokens in Redis: 32 bytes, or their Base64 (openssl rand \
                -base64 32). Workers with the same file share one token for each signing key; one of them signs a new \
                token every 35 minutes. Without this file every worker signs its own. Apple limits how often a team \
                may create tokens. How many workers APNs accepts without sharing is not known.
                """
        )
        .whenUnset("every worker signs its own"),
        .integer(
            "apns.connectionsPerPool",
            \.apns.connectionsPerPool,
            1...16,
            meaning: """
                The maximum number of HTTP/2 connections that each lane opens for each app and environment. A lane \
                starts with one, and opens or closes connections as the load changes.
                """
        ),
        .integer(
            "apns.inFlightPerConnection",
            \.apns.inFlightPerConnection,
            1...4_096,
            meaning:
                "The maximum number of pushes in flight on one connection. If APNs' own limit is lower, it applies."
        ),
        .integer(
            "apns.requestTimeoutMilliseconds",
            \.apns.requestTimeoutMilliseconds,
            100...60_000,
            meaning: "Time from sending a push to its response. After this time the response counts as lost."
        ),
        .integer(
            "apns.connectTimeoutMilliseconds",
            \.apns.connectTimeoutMilliseconds,
            100...60_000,
            meaning: "Time for name resolution, TCP and TLS together."
        ),
    ]
}
