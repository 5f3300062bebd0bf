package kubeenv

// Assets lets tests look for the binaries with another environment.
var Assets = assets
